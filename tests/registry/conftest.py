"""A registry for each test: the embedded one, and for the tests of the common suite also a real one."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from functools import cached_property

import attrs
import httpcore2  # noqa: F401  # imported with the first request otherwise, within its time limit
import pytest
from anyio.from_thread import start_blocking_portal
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer

from aioproducer.registry import Registry
from aioproducer.testing import EmbeddedRegistry
from tools.registry_node import RegistryNode


@attrs.frozen
class Place:
    """A registry that a test may use, with subjects of its own."""

    url: str
    has_guids: bool
    has_versions: bool
    """Whether it tells the version when a schema is registered."""
    prefix: str = attrs.field(factory=lambda: uuid.uuid4().hex[:8])

    def subject(self, name: str) -> str:
        """A subject of this test."""
        return f"{self.prefix}-{name}"


@pytest.fixture(scope="session")
def real_registry() -> Iterator[RegistryNode]:
    """A real registry, shared by all tests."""
    with RegistryNode() as node:
        yield node


@attrs.frozen(slots=False)
class Readers:
    """A registry that runs elsewhere, and the readers of confluent-kafka."""

    url: str
    client: SchemaRegistryClient

    @cached_property
    def avro(self) -> AvroDeserializer:
        """Reads Avro."""
        reader: AvroDeserializer = AvroDeserializer(self.client)
        return reader


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kafka)])
def readers(request: pytest.FixtureRequest) -> Iterator[Readers]:
    """Each kind of registry, for tests that are no coroutines."""
    with ExitStack() as stack:
        if request.param == "real":
            url = request.getfixturevalue("real_registry").url
        else:
            portal = stack.enter_context(start_blocking_portal())
            url = stack.enter_context(portal.wrap_async_context_manager(EmbeddedRegistry())).url
        client = stack.enter_context(SchemaRegistryClient({"url": url}))
        yield Readers(url, client)


@pytest.fixture
async def embedded() -> AsyncIterator[EmbeddedRegistry]:
    """An embedded registry."""
    async with EmbeddedRegistry() as server:
        yield server


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kafka)])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """Each kind of registry."""
    if request.param == "real":
        yield Place(request.getfixturevalue("real_registry").url, has_guids=False, has_versions=False)
        return
    async with EmbeddedRegistry() as server:
        yield Place(server.url, has_guids=True, has_versions=True)


@pytest.fixture
async def registry(place: Place) -> AsyncIterator[Registry]:
    """A client of it."""
    async with Registry(place.url) as client:
        yield client

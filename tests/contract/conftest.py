"""Every test here runs against the embedded Kafka and against a real one, and asserts the same of both."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest

from aioproducer.testing import EmbeddedKafka
from tests.contract.client import WireClient

_numbers = itertools.count()


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kafka)])
async def address(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """Where the Kafka under test listens. It creates no topics by itself."""
    if request.param == "real":
        yield request.getfixturevalue("real_kafka").bootstrap_servers
        return
    async with EmbeddedKafka(auto_create_topics=False, validate_records=True) as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture
async def client(address: str) -> AsyncIterator[WireClient]:
    """A connection to it."""
    async with WireClient(address) as connected:
        yield connected


@pytest.fixture
def name() -> str:
    """A topic name that no other test uses."""
    return f"contract-{next(_numbers)}"

"""Fixtures for the contract of the public interface: an embedded Kafka, and producers that end with the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka
from tests.api.support import turns, warm

Make = Callable[..., Producer[Any, Any]]


@pytest.fixture(autouse=True)
def nothing_blocks() -> Iterator[None]:
    """A blocking call of the library inside the event loop fails the test."""
    with blockbuster_ctx("aioproducer"):
        yield


@pytest.fixture(autouse=True)
async def no_task_left() -> AsyncIterator[None]:
    """No task of the library outlives a test."""
    yield
    # A task that close() has cancelled ends in the next turns of the loop.
    await turns(5)
    left = [task for task in asyncio.all_tasks() if task.get_name().startswith("aioproducer")]
    assert left == []


@pytest.fixture
async def kafka(no_task_left: None) -> AsyncIterator[EmbeddedKafka]:
    """One broker with the topics `one` (1 partition) and `four` (4 partitions)."""
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("one", 1)
        kafka.create_topic("four", 4)
        yield kafka


@pytest.fixture
async def make(kafka: EmbeddedKafka) -> AsyncIterator[Make]:
    """Make producers on `kafka`, to be started by the test; they are closed at its end."""
    made: list[Producer[Any, Any]] = []

    def producer(**settings: Any) -> Producer[Any, Any]:
        made.append(Producer(kafka.bootstrap_servers, **settings))
        return made[-1]

    yield producer
    kafka.faults.heal()
    for one in made:
        await one.close(timeout=1)


@pytest.fixture
async def producer(make: Make) -> Producer[Any, Any]:
    """A running producer that knows both topics."""
    return await warm(make())

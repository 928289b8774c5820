"""Fixtures for relays: an embedded Kafka, and a gapless producer on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, turns
from tests.outbox.memory import MemoryStore, Table


@pytest.fixture(autouse=True)
def nothing_blocks() -> Iterator[None]:
    """A blocking call of the library inside the event loop fails the test."""
    with blockbuster_ctx("aioproducer") as rules:
        # With the connection of the caller, in the caller's thread.
        rules.functions["sqlite3.Connection.execute"].can_block_in("aioproducer/outbox/sqlite.py", "add")
        yield


@pytest.fixture(autouse=True)
async def no_task_left() -> AsyncIterator[None]:
    """No task of the library outlives a test."""
    yield
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
async def producer(kafka: EmbeddedKafka) -> AsyncIterator[Producer[Any, Any]]:
    """A running gapless producer."""
    producer = Producer(
        kafka.bootstrap_servers,
        gapless=True,
        retry_backoff_ms=1,
        retry_backoff_max_ms=5,
        max_request_size=10_000,
    )
    await producer.start(wait_ready=LIMIT)
    yield producer
    kafka.faults.heal()
    await producer.close(timeout=1)


@pytest.fixture
def table() -> Table:
    """An empty table."""
    return Table()


@pytest.fixture
def store(table: Table) -> MemoryStore:
    """A store on it."""
    return MemoryStore(table)

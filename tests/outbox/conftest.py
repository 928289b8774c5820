"""Fixtures for relays: an embedded Kafka, and a gapless producer on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import kafka, no_task_left
from tests.net.support import LIMIT
from tests.outbox.memory import MemoryStore, Table

__all__ = ["kafka", "no_task_left", "nothing_blocks", "producer", "store", "table"]


@pytest.fixture(autouse=True)
def nothing_blocks() -> Iterator[None]:
    """A blocking call of the library inside the event loop fails the test."""
    with blockbuster_ctx("aioproducer") as rules:
        # With the connection of the caller, in the caller's thread.
        rules.functions["sqlite3.Connection.execute"].can_block_in("aioproducer/outbox/sqlite.py", "add")
        yield


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

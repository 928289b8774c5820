"""Fixtures for whole producers under faults: embedded clusters, producers that end, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, timers_of_the_library, turns
from tests.net.transactional import END_TXN, INIT_PRODUCER_ID, NAME, MovableClock

QUICK: dict[str, Any] = {
    # A test that waits for a pause has the shortest one that shows its effect.
    "linger_ms": 0,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 20,
}


@pytest.fixture(autouse=True)
def nothing_blocks() -> Iterator[None]:
    """A blocking call of the library inside the event loop fails the test."""
    with blockbuster_ctx("aioproducer"):
        yield


def open_sockets() -> set[str]:
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that the listing itself has open
            target = str(link.readlink())
            if target.startswith("socket:"):
                found.add(target)
    return found


@pytest.fixture(autouse=True)
async def nothing_left() -> AsyncIterator[None]:
    """No task, timer or socket of the library outlives a test."""
    before = open_sockets()
    yield
    await turns(5)
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("aioproducer")] == []
    # A connection that is left looks for its answers each 20 ms, once behind its end as well.
    limit = asyncio.get_running_loop().time() + 1.0
    while timers_of_the_library() and asyncio.get_running_loop().time() < limit:
        await turns(1)
    assert timers_of_the_library() == []
    try:
        async with asyncio.timeout(LIMIT):
            # A connection accepted by a closed broker ends when the broker sees that its client is gone.
            while open_sockets() - before:
                await turns(1)
    except TimeoutError:
        assert open_sockets() - before == set()


Made = list[tuple[EmbeddedKafka | None, Producer[Any, Any]]]
"""Producers, each with its cluster, if that is embedded."""


@pytest.fixture
def made(nothing_left: None) -> Made:
    """The producers of the test that remain to be closed."""
    return []


async def close_all(made: Made) -> None:
    """Close the producers while their brokers run: they would call ports that another worker's brokers may have taken."""
    while made:
        kafka, one = made.pop(0)
        if kafka is not None:
            kafka.faults.heal()
        await one.close(timeout=1)


@pytest.fixture
async def kafka(made: Made) -> AsyncIterator[EmbeddedKafka]:
    """One broker with the topics `one` (1 partition) and `four` (4 partitions)."""
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("one", 1)
        kafka.create_topic("four", 4)
        yield kafka
        await close_all(made)


@pytest.fixture(params=[1, 2], ids=["level1", "level2"])
async def ledger(request: pytest.FixtureRequest, made: Made) -> AsyncIterator[EmbeddedKafka]:
    """Three brokers with a clock of their own and transactions of either version; `one` has 1 partition, `four` and `source` have 4."""
    async with EmbeddedKafka(3, clock=MovableClock(), transaction_version=request.param) as kafka:
        for topic, partitions in (("one", 1), ("four", 4), ("source", 4)):
            kafka.create_topic(topic, partitions)
        yield kafka
        await close_all(made)


@pytest.fixture
async def loop_clock() -> MovableClock:
    """The time of the event loop, to be requested before producers: a test that skips some of it waits for no deadline."""
    clock = MovableClock()
    asyncio.get_running_loop().time = clock  # type: ignore[method-assign]
    return clock


@pytest.fixture
def renewing(request: pytest.FixtureRequest, ledger: EmbeddedKafka) -> str:
    """The request by which a producer with an identity gets its next epoch from the `ledger`."""
    return INIT_PRODUCER_ID if request.node.callspec.params["ledger"] == 1 else END_TXN


@pytest.fixture
async def clerk(make: Make, ledger: EmbeddedKafka) -> Producer[Any, Any]:
    """A running transactional producer, initialized."""
    one = make(ledger, transactional_id=NAME)
    await one.start()
    await one.init_transactions()
    return one


@pytest.fixture
async def pair(made: Made) -> AsyncIterator[EmbeddedKafka]:
    """Two brokers; the topic `two` has a partition on each and no replicas, `one` moves between them."""
    async with EmbeddedKafka(brokers=2) as kafka:
        kafka.create_topic("one", 1, replication_factor=1)
        kafka.create_topic("two", 2, replication_factor=1)
        yield kafka
        await close_all(made)


@pytest.fixture
async def make(made: Made) -> AsyncIterator[Make]:
    """Make producers with short pauses, to be started by the test; they are closed at its end, before their brokers are."""

    def producer(kafka: EmbeddedKafka | str, **settings: Any) -> Producer[Any, Any]:
        servers = kafka if isinstance(kafka, str) else kafka.bootstrap_servers
        one: Producer[Any, Any] = Producer(servers, **{**QUICK, **settings})
        made.append((None if isinstance(kafka, str) else kafka, one))
        return one

    yield producer
    await close_all(made)


@pytest.fixture
async def producer(make: Make, kafka: EmbeddedKafka) -> Producer[Any, Any]:
    """A running producer that knows `one` and `four`, with one record in each request."""
    one = make(kafka, batch_size=1)
    await one.start(wait_ready=5)
    await one.partitions_for("one")
    await one.partitions_for("four")
    return one

"""Lingering: batches wait for more records, unless a call waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aioproducer import Delivery, Outcome, Producer
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import LIMIT, started, turns, until, values, warm

LONG: dict[str, Any] = {"linger_ms": 10_000}


@pytest.fixture
async def lingering(make: Make) -> Producer[Any, Any]:
    """A producer whose batches linger for longer than any test."""
    return await warm(make(**LONG))


async def by_await(delivery: Delivery) -> None:
    """await delivery."""
    await delivery


async def by_gather(delivery: Delivery) -> None:
    """gather(delivery)."""
    await asyncio.gather(delivery)


async def by_wait(delivery: Delivery) -> None:
    """asyncio.wait([delivery])."""
    await asyncio.wait([delivery])  # type: ignore[type-var]


async def by_wait_for(delivery: Delivery) -> None:
    """wait_for(delivery)."""
    await asyncio.wait_for(delivery, LIMIT)


async def by_wait_method(delivery: Delivery) -> None:
    """delivery.wait()."""
    await delivery.wait(LIMIT)


async def by_callback(delivery: Delivery) -> None:
    """A done callback."""
    called = asyncio.Event()
    delivery.add_done_callback(lambda _: called.set())
    await called.wait()


async def by_task(delivery: Delivery) -> None:
    """A task that awaits it."""
    await started(by_await(delivery))


WAYS = [by_await, by_gather, by_wait, by_wait_for, by_wait_method, by_callback, by_task]


@pytest.mark.parametrize("way", WAYS)
async def test_awaited_does_not_linger(
    lingering: Producer[Any, Any], way: Callable[[Delivery], Awaitable[None]]
) -> None:
    """A delivery with a waiter of any kind does not wait for linger_ms."""
    delivery = await lingering.send("one", b"v")
    async with asyncio.timeout(LIMIT):
        await way(delivery)
    assert delivery.outcome is Outcome.ACKED


async def test_send_and_wait_does_not_linger(lingering: Producer[Any, Any]) -> None:
    """send_and_wait() is an awaited delivery."""
    assert (await asyncio.wait_for(lingering.send_and_wait("one", b"v"), LIMIT)).offset == 0


async def test_awaited_before_it_has_a_place(lingering: Producer[Any, Any]) -> None:
    """A queued record of an unknown topic that is awaited does not linger once it has its place."""
    delivery = lingering.send_nowait("new", b"v")
    assert (await asyncio.wait_for(delivery, LIMIT)).offset == 0


async def test_not_awaited_lingers(lingering: Producer[Any, Any], kafka: EmbeddedKafka) -> None:
    """A record without a waiter stays until the batch is full or a call waits."""
    first = await lingering.send("one", b"v")
    await lingering.partitions_for("other")
    await turns(10)
    before = first.outcome
    await (await lingering.send("one", b"w"))
    assert [before, first.outcome] == [Outcome.PENDING, Outcome.ACKED]
    assert [len(request.batches) for request in kafka.requests if request.api == "Produce"] == [1]


async def test_one_batch_for_one_turn(lingering: Producer[Any, Any], kafka: EmbeddedKafka) -> None:
    """Records that are sent and awaited in one turn of the loop leave in one batch."""
    await asyncio.gather(*(lingering.send_and_wait("one", b"v") for _ in range(100)))
    batches = [batch for request in kafka.requests for batch in request.batches]
    assert [batch.count for batch in batches] == [100]


async def test_full_batches_leave_at_once(make: Make, kafka: EmbeddedKafka) -> None:
    """A batch that is full does not linger; the rest does."""
    producer = await warm(make(batch_size=1000, **LONG))
    deliveries = [await producer.send("one", bytes(200)) for _ in range(5)]
    await until(deliveries[0].done)
    assert deliveries[-1].outcome is Outcome.PENDING
    assert 0 < len(values(kafka)) < 5


async def test_linger_ends(make: Make) -> None:
    """After linger_ms a batch leaves without a waiter."""
    producer = await warm(make(linger_ms=10))
    delivery = await producer.send("one", b"v")
    await until(delivery.done)
    assert delivery.outcome is Outcome.ACKED


async def test_linger_awaited(make: Make) -> None:
    """linger_awaited=True lets awaited records linger, as Kafka does."""
    producer = await warm(make(linger_awaited=True, **LONG))
    delivery = await producer.send("one", b"v")
    assert await delivery.wait(0.05) is Outcome.PENDING
    await producer.flush()
    assert delivery.outcome is Outcome.ACKED


async def test_linger_awaited_leaves_after_linger(make: Make) -> None:
    """With linger_awaited=True an awaited record leaves after linger_ms."""
    producer = await warm(make(linger_awaited=True, linger_ms=20))
    assert (await asyncio.wait_for(await producer.send("one", b"v"), LIMIT)).offset == 0


async def test_no_linger(make: Make, kafka: EmbeddedKafka) -> None:
    """With linger_ms=0 a record leaves at once."""
    producer = await warm(make(linger_ms=0))
    hold = kafka.faults.delay(times=None)
    await producer.send("one", b"v")
    await asyncio.wait_for(hold.reached(), LIMIT)


async def test_others_in_the_share_of_a_waiter_are_sent(make: Make) -> None:
    """Lingering records leave when a call waits for memory, even those accepted while others waited."""
    producer = await warm(make(buffer_memory=3000, linger_ms=60_000))
    tasks = [started(producer.send("one", bytes(2000))) for _ in range(6)]
    done, pending = await asyncio.wait(tasks, timeout=LIMIT)
    assert len(done) == 6
    assert not pending

"""A loop that was held up: answers that arrived meanwhile are handled before any deadline is judged."""

from __future__ import annotations

import asyncio
import time

from aioproducer import Outcome
from aioproducer.testing import EmbeddedKafka
from tests.net.support import Make, numbers, send_all, turns, warm


def block(seconds: float) -> None:
    """Hold up the loop, as a careless callback does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


async def test_longer_than_the_request_timeout(make: Make, kafka: EmbeddedKafka) -> None:
    """An answer that had arrived is accepted, though its request is overdue: one connection, one attempt."""
    producer = await warm(make(kafka, request_timeout_ms=100), "one")
    fault = kafka.faults.delay()
    delivery = await producer.send("one", b"0")
    await fault.reached()
    fault.release()
    await turns(1)
    block(0.25)
    assert await delivery.wait(5) is Outcome.ACKED
    connection, _ = producer.stats().connections
    assert (connection.connects, len(numbers(kafka))) == (1, 1)
    assert producer.stats().records_retried == 0


async def test_longer_than_the_delivery_timeout(make: Make, kafka: EmbeddedKafka) -> None:
    """Records whose answers had arrived before their deadline passed are ACKED, all of them."""
    producer = await warm(make(kafka, delivery_timeout_ms=150, request_timeout_ms=150, batch_size=1), "four")
    for partition in range(4):
        await producer.send_and_wait("four", b"0", partition=partition)
    hold = kafka.faults.delay(times=None)
    deliveries = []
    for partition in range(4):
        deliveries += await send_all(producer, range(3), "four", partition=partition)
    await hold.reached()
    hold.release()
    await turns(1)
    block(0.3)
    assert {await one.wait(5) for one in deliveries[:1]} == {Outcome.ACKED}


async def test_records_with_a_deadline_of_their_own(make: Make, kafka: EmbeddedKafka) -> None:
    """The same holds for `timeout` of a single record."""
    producer = await warm(make(kafka), "one")
    hold = kafka.faults.delay()
    delivery = await producer.send("one", b"0", timeout=0.1)
    await hold.reached()
    hold.release()
    await turns(1)
    block(0.25)
    assert await delivery.wait(5) is Outcome.ACKED


async def test_waiting_for_memory(make: Make, kafka: EmbeddedKafka) -> None:
    """A call whose room came back with an answer that had arrived gets it, though `max_block` is over."""
    producer = await warm(make(kafka, buffer_memory=1_000, batch_size=100), "one")
    hold = kafka.faults.delay(times=None)
    first = await send_all(producer, range(4), key=bytes(150))
    waiting = asyncio.ensure_future(producer.send("one", bytes(300), max_block=0.1))
    await hold.reached()
    hold.release()
    await turns(2)
    block(0.25)
    assert (await waiting).outcome in (Outcome.PENDING, Outcome.ACKED)
    assert await first[0].wait(5) is Outcome.ACKED


async def test_no_reconnect_after_a_stall(make: Make, kafka: EmbeddedKafka) -> None:
    """A stall with nothing in flight changes nothing."""
    producer = await warm(make(kafka, request_timeout_ms=50), "one")
    await producer.send_and_wait("one", b"0")
    block(0.2)
    await turns()
    await producer.send_and_wait("one", b"1")
    assert producer.stats().connections[0].connects == 1

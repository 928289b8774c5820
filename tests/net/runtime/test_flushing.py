"""`flush()` waits for records accepted before it, through every fault, and for nothing else."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer import Outcome
from aioproducer._state.batching.accumulator import Accumulator
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, engine, in_flight, numbers, send_all, turns, until, warm


async def test_through_retries(make: Make, kafka: EmbeddedKafka) -> None:
    """It waits while records are sent again, even on connections that break."""
    producer = await warm(make(kafka, linger_ms=60_000, batch_size=1), "four")
    kafka.faults.cut(skip=1)
    kafka.faults.error("NOT_ENOUGH_REPLICAS_AFTER_APPEND", skip=3, times=2)
    kafka.faults.cut(before=True, skip=7)
    deliveries = await send_all(producer, range(50), "four")
    report = await producer.flush()
    assert (report.acked, report.not_written, report.unknown) == (50, 0, 0)
    assert [one.outcome for one in deliveries] == [Outcome.ACKED] * 50


async def test_through_a_split(make: Make, kafka: EmbeddedKafka) -> None:
    """A split batch is done when all of its parts are."""
    kafka.create_topic("small", max_message_bytes=300)
    producer = await warm(make(kafka, linger_ms=60_000), "small")
    hold = kafka.faults.delay(before=True, skip=3)
    deliveries = await send_all(producer, range(100), "small")
    flushing = asyncio.ensure_future(producer.flush())
    await hold.reached()
    await turns(10)
    assert not flushing.done()
    hold.release()
    assert (await flushing).acked == 100
    assert [one.outcome for one in deliveries] == [Outcome.ACKED] * 100
    assert numbers(kafka, "small") == list(range(100))


async def test_many_at_once(make: Make, kafka: EmbeddedKafka) -> None:
    """Overlapping flushes each return when their records are done; cancelled ones leave nothing behind."""
    producer = await warm(make(kafka, batch_size=1), "one")
    hold = kafka.faults.delay(before=True, times=None)
    flushes = []
    for number in range(20):
        await send_all(producer, [number])
        flushes.append(asyncio.ensure_future(producer.flush()))
    await until(lambda: in_flight(producer) >= 1)
    for flush in flushes[::2]:
        flush.cancel()
    hold.heal()
    async with asyncio.timeout(LIMIT):
        await asyncio.gather(*flushes, return_exceptions=True)
    await until(lambda: not engine(producer).flushes.waiting)
    assert numbers(kafka) == list(range(20))


def no_memory(*_: object) -> None:
    """Replaces a call that allocates memory."""
    raise MemoryError


async def test_without_memory_at_its_begin(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller gets the error, and the producer works on, though batches refer to the flush already."""
    producer = await warm(make(kafka, linger_ms=60_000), "one")
    await send_all(producer, range(3))
    with monkeypatch.context() as patch:
        patch.setattr(Accumulator, "send_all_now", no_memory)
        with pytest.raises(MemoryError):
            await producer.flush()
    assert (await producer.flush()).acked == 3
    await send_all(producer, range(3, 6))
    assert (await producer.flush()).acked == 3
    assert numbers(kafka) == list(range(6))
    assert not engine(producer).flushes.waiting


async def test_without_memory_for_the_place_of_a_record(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome of a record that waited for its topic cannot be recorded for the flush: the flush raises that, and waits no longer."""
    producer = await warm(make(kafka, linger_ms=60_000))
    metadata = kafka.faults.silence(api="Metadata", times=None)
    delivery = producer.send_nowait("one", b"0")
    flushing = asyncio.ensure_future(producer.flush())
    await turns()
    with monkeypatch.context() as patch:
        patch.setattr("aioproducer._state.queues.flushing.Covered", no_memory)
        metadata.heal()
        async with asyncio.timeout(LIMIT):
            assert await delivery.wait() is Outcome.ACKED
            with pytest.raises(MemoryError):
                await flushing
    assert (await producer.flush()).acked == 1
    assert not engine(producer).flushes.waiting

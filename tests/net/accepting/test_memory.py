"""`buffer_memory` is a strict limit; calls that wait for room get it in turn, or an error in time."""

from __future__ import annotations

import asyncio
import time

import pytest

from aioproducer import BufferFullError, Outcome
from aioproducer.testing import EmbeddedKafka
from tests.net.support import Make, all_acked, engine, memory_in_use, numbers, outcomes, send_all, until, warm

MEMORY = 10_000


async def test_never_more_than_the_limit(make: Make, kafka: EmbeddedKafka) -> None:
    """With any number of senders and any slow broker, buffered records stay within `buffer_memory`."""
    producer = await warm(make(kafka, buffer_memory=MEMORY, batch_size=2_000), "four")
    kafka.faults.delay(0.01, times=5)
    sends = [asyncio.ensure_future(producer.send("four", bytes(300))) for _ in range(500)]
    assert await all_acked(await asyncio.gather(*sends))
    assert MEMORY // 2 < engine(producer).accumulator.budget.peak <= MEMORY
    assert memory_in_use(producer) == 0


async def test_no_room_in_time(make: Make, kafka: EmbeddedKafka) -> None:
    """With the broker down and memory full a send fails after `max_block`, and accepted records stay."""
    producer = await warm(make(kafka, buffer_memory=MEMORY, batch_size=2_000), "one")
    fault = kafka.faults.silence(api="Produce")
    accepted = []
    start = time.monotonic()
    with pytest.raises(BufferFullError) as failure:
        while True:
            accepted.append(await producer.send("one", bytes(300), max_block=0.1))
    assert 0.09 <= time.monotonic() - start < 3
    assert failure.value.outcome is Outcome.NOT_WRITTEN
    assert len(accepted) > 20
    assert engine(producer).accumulator.budget.peak <= MEMORY
    fault.heal()
    kafka.faults.drop_connections(1)
    assert await all_acked(accepted)


async def test_ten_thousand_waiting_sends(make: Make, kafka: EmbeddedKafka) -> None:
    """10,000 sends that wait for memory get it in their order, none is lost, and the loop stays responsive."""
    producer = await warm(make(kafka, buffer_memory=MEMORY, batch_size=2_000), "one")
    hold = kafka.faults.delay(before=True, times=None)
    sends = [asyncio.ensure_future(producer.send("one", b"%05d" % n)) for n in range(10_000)]
    await hold.reached()
    assert engine(producer).admission.calls.waiting > 9_000
    hold.heal()
    assert await all_acked(await asyncio.gather(*sends))
    assert numbers(kafka) == list(range(10_000))
    assert engine(producer).accumulator.budget.peak <= MEMORY
    assert memory_in_use(producer) == 0


async def test_some_of_many_give_up(make: Make, kafka: EmbeddedKafka) -> None:
    """Waiting sends that are cancelled or run out of time leave the line; all others are written, in order."""
    producer = await warm(make(kafka, buffer_memory=MEMORY, batch_size=2_000), "one")
    hold = kafka.faults.delay(before=True, times=None)
    sends = [
        asyncio.ensure_future(producer.send("one", b"%0300d" % n, max_block=0.1 if n % 5 == 4 else 10))
        for n in range(200)
    ]
    await hold.reached()
    waiting = [n for n, send in enumerate(sends) if not send.done()]
    cancelled = [n for n in waiting if n % 5 == 2]
    for n in cancelled:
        sends[n].cancel()
    late = [n for n in waiting if n % 5 == 4]
    await until(lambda: all(sends[n].done() for n in late))
    hold.heal()
    done = await asyncio.gather(*sends, return_exceptions=True)
    # On a slow machine some calls had given up before the broker held the first request.
    gave_up = [n for n in range(200) if isinstance(done[n], BufferFullError)]
    assert set(late) <= set(gave_up) <= set(range(4, 200, 5))
    assert all(isinstance(done[n], asyncio.CancelledError) for n in cancelled)
    await producer.flush()
    assert numbers(kafka) == [n for n in range(200) if n not in (*gave_up, *cancelled)]
    assert memory_in_use(producer) == 0


async def test_half_full_batches_do_not_wait_for_their_linger(make: Make, kafka: EmbeddedKafka) -> None:
    """When sends wait for memory, lingering batches are sent: many half-full batches cannot block each other."""
    producer = await warm(make(kafka, buffer_memory=1_000, batch_size=100_000, linger_ms=60_000), "four")
    async with asyncio.timeout(5):
        deliveries = [await producer.send("four", bytes(150), partition=n % 4) for n in range(40)]
    await producer.flush()
    assert await all_acked(deliveries)


async def test_memory_comes_back_from_every_end(make: Make, kafka: EmbeddedKafka) -> None:
    """Acked, refused, expired, withdrawn, split: each gives its memory back."""
    producer = await warm(make(kafka, delivery_timeout_ms=300, request_timeout_ms=200), "one", "four")
    await send_all(producer, range(5))
    await producer.flush()
    assert memory_in_use(producer) == 0
    with kafka.faults.error("INVALID_TIMESTAMP", times=None):
        assert await outcomes(await send_all(producer, range(3))) == [Outcome.NOT_WRITTEN] * 3
    assert memory_in_use(producer) == 0
    with kafka.faults.silence(api="Produce"):
        assert await outcomes(await send_all(producer, range(3))) == [Outcome.UNKNOWN] * 3
        assert memory_in_use(producer) == 0
        await send_all(producer, range(3), "four")
        producer.purge()
        await producer.flush()
        assert memory_in_use(producer) == 0
    kafka.faults.error("MESSAGE_TOO_LARGE")
    hold = kafka.faults.delay(before=True)
    first = await producer.send("four", b"0", partition=0)
    await hold.reached()
    rest = await send_all(producer, range(1, 9), "four", partition=0)
    hold.release()
    assert await all_acked([first, *rest]) or first.outcome is Outcome.NOT_WRITTEN
    assert memory_in_use(producer) == 0

"""Bulk sends that need more memory than there is: in order, until it is full, cut by a cancellation."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer import (
    BufferFullError,
    Outcome,
    Producer,
)
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import held_requests, started, turns, values, warm


async def test_cancelled_wait_keeps_what_was_accepted(make: Make, kafka: EmbeddedKafka) -> None:
    """Cancelled half way: accepted records are written, the rest is NOT_WRITTEN, and `.delivery` has each outcome."""
    producer = await warm(make(buffer_memory=5000))
    hold = held_requests(kafka)
    sending = producer.send_batch("one", [b"%d" % (i % 10) + bytes(999) for i in range(10)])
    delivery = sending.delivery
    task = started(sending)
    await hold.reached()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    hold.heal()
    assert delivery is not None
    result = await delivery
    assert 0 < result.acked < 10
    assert result.acked + result.not_written == 10
    assert sorted(result.errors) == list(range(result.acked, 10))
    assert {error.outcome for error in result.errors.values()} == {Outcome.NOT_WRITTEN}
    await producer.flush()
    assert len(values(kafka)) == result.acked


async def test_more_data_than_memory(make: Make, kafka: EmbeddedKafka) -> None:
    """It takes memory as room comes back: ten times the memory is written, in order, while a single send waits behind it."""
    producer = await warm(make(buffer_memory=20_000, batch_size=4000))
    many = started(producer.send_batch("one", [b"%04d" % i + bytes(996) for i in range(200)]))
    await turns(1)
    last = started(producer.send("one", b"last"))
    result = await (await many)
    await (await last)
    assert result.acked == 200
    assert [(value or b"")[:4] for value in values(kafka)] == [b"%04d" % i for i in range(200)] + [b"last"]


async def test_no_memory_for_max_block(make: Make, kafka: EmbeddedKafka) -> None:
    """When no memory comes back, the rest are BufferFullErrors, and accepted records are written."""
    producer = await warm(make(buffer_memory=3000, max_block_ms=300))
    hold = held_requests(kafka)
    delivery = await producer.send_batch("one", [bytes(1000)] * 5)
    hold.heal()
    result = await delivery
    assert result.acked == 2
    assert [type(result.errors[at]) for at in (2, 3, 4)] == [BufferFullError] * 3


async def test_later_sends_do_not_overtake(make: Make, kafka: EmbeddedKafka) -> None:
    """A small send behind a bulk that waits for memory is written after all of it."""
    producer = await warm(make(buffer_memory=5000))
    hold = held_requests(kafka)
    many = started(producer.send_batch("one", [bytes(1000)] * 8))
    await hold.reached()
    small = started(producer.send("one", b"small"))
    hold.heal()
    await many
    await small
    await producer.flush()
    assert values(kafka)[-1] == b"small"


async def test_timeout_of_the_records(producer: Producer, kafka: EmbeddedKafka) -> None:
    """`timeout` is the time of each record of the call."""
    held_requests(kafka)
    delivery = await producer.send_batch("one", [b"v"] * 3, timeout=0.05)
    result = await asyncio.wait_for(delivery, 5)
    assert (result.acked, len(result.errors)) == (0, 3)
    assert all(isinstance(error, TimeoutError) for error in result.errors.values())

"""A flush ends with the last record it waits for, however that one ends: also before it was ever sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aioproducer._core import Delivery
from tests.state.machines import DELIVERY_TIMEOUT, Machines

MESSAGE_TOO_LARGE = 10


def purged(m: Machines, delivery: Delivery) -> None:
    assert m.machines.endings.purge(delivery.topic, m.now) == 1


def withdrawn(m: Machines, delivery: Delivery) -> None:
    del m
    assert delivery.try_cancel()


def expired(m: Machines, delivery: Delivery) -> None:
    del delivery
    m.later(DELIVERY_TIMEOUT)


def closed(m: Machines, delivery: Delivery) -> None:
    del delivery
    m.machines.endings.abandon("closed", None, m.now)


@pytest.mark.parametrize("end", [purged, withdrawn, expired, closed])
def test_a_flush_ends_with_a_record_that_was_never_sent(end: Callable[[Machines, Delivery], None]) -> None:
    """The partition has no leader; its records end in another way, and the waiting flush is resolved, once."""
    m = Machines().introduced(-1)
    delivery = m.append()
    flush = m.accumulator.flush(m.now)
    assert m.flushed == []
    end(m, delivery)
    assert delivery.done()
    assert m.flushed == [flush]


def test_records_that_come_later_do_not_prolong_it() -> None:
    """A batch that no broker takes goes on taking records; the flush ends with those that were there, and counts them alone."""
    m = Machines().introduced(-1)
    m.append()
    m.append()
    m.later(0.5)
    flush = m.accumulator.flush(m.now)
    for _ in range(4):
        m.later(0.1)
        m.append()
    batch = m.queue().open
    m.later(DELIVERY_TIMEOUT - 0.9)
    assert m.flushed == [flush]
    assert (flush.not_written, m.tally.not_written) == (2, 2)
    assert batch is not None
    assert batch.pending == 4


def test_the_oldest_record_without_an_outcome() -> None:
    """Its age is not that of its batch, whose first records had their end; nor is it once that is written anew."""
    m = Machines().introduced(-1)
    start = m.now
    m.append()
    m.later(0.5)
    m.append()
    batch = m.queue().open
    assert batch is not None
    assert batch.waiting_since() == start
    m.later(DELIVERY_TIMEOUT - 0.5)
    assert batch.waiting_since() == pytest.approx(start + 0.5)
    m.lead(m.queue(), 1)
    again = m.only()
    assert again is not batch
    assert again.waiting_since() == pytest.approx(start + 0.5)
    m.acknowledge(again)
    assert again.waiting_since() is None


def test_a_part_of_a_batch_that_is_split() -> None:
    """The flush waits for the records that were there, in whatever parts they travel; what came behind is not counted."""
    m = Machines().introduced(1)
    for number in range(6):
        m.append(b"%d" % number + bytes(80))
    flush = m.accumulator.flush(m.now)
    for number in range(6, 10):
        m.append(b"%d" % number + bytes(30))
    batch = m.only()
    assert batch.record_count == 10
    m.answer(batch, MESSAGE_TOO_LARGE)
    parts = 0
    while not flush.done:
        parts += 1
        m.acknowledge(m.only())
    assert parts >= 1
    assert (flush.acked, flush.not_written, flush.unknown) == (6, 0, 0)
    assert m.flushed == [flush]
    while m.accumulator.live:
        m.acknowledge(m.only())
    assert (flush.acked, flush.not_written, flush.unknown) == (6, 0, 0)
    assert m.tally.acked == 10


def test_withdrawn_records_of_a_batch() -> None:
    """Of a covered part some are withdrawn, before and after the call; the batch is written anew without them."""
    m = Machines().introduced(1)
    deliveries = [m.append(b"%d" % number) for number in range(5)]
    assert deliveries[1].try_cancel()
    flush = m.accumulator.flush(m.now)
    late = m.append(b"late")
    assert deliveries[0].try_cancel()
    assert late.try_cancel()
    m.append(b"later")
    m.acknowledge(m.only())
    assert (flush.acked, flush.not_written, flush.unknown) == (3, 1, 0)
    assert m.flushed == [flush]

"""`Distribution`: counts in buckets, their sum, and the largest value since it was asked for."""

from __future__ import annotations

from aioproducer._core import Batch, BatchSettings, Distribution, count_acknowledged


def test_the_largest_value_is_taken_once() -> None:
    """The largest value since the last call is given; None if there was none. Counts and sum stay."""
    counts = Distribution((1.0, 2.0))
    assert counts.take_largest() is None
    for value in (0.5, 7.0, 1.5):
        counts.add(value)
    assert counts.take_largest() == 7.0
    assert counts.take_largest() is None
    counts.add(-1.0)
    assert counts.take_largest() == -1.0
    assert (counts.counts, counts.total) == ((2, 1, 1), 8.0)


def test_a_written_batch_is_counted_by_its_times_and_records() -> None:
    """The times in the queue, of the request and of the delivery, and the number of records, each in its own counts."""
    batch = Batch("t", 0, 1000, BatchSettings(), 10.0)
    for _ in range(3):
        batch.append(None, b"v", None, 0)
    batch.drained_at, batch.written_at = 10.5, 11.0
    queue_time, request_time, delivery_time, batch_records = (Distribution(()) for _ in range(4))
    count_acknowledged(batch, 13.0, queue_time, request_time, delivery_time, batch_records)
    totals = [counts.total for counts in (queue_time, request_time, delivery_time, batch_records)]
    assert totals == [0.5, 2.0, 3.0, 3.0]
    assert queue_time.counts == (1,)

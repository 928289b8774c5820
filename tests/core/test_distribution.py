"""`Distribution`: counts in buckets, their sum, and the largest value since it was asked for."""

from __future__ import annotations

from aioproducer._core import Distribution


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

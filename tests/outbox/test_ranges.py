"""The ranges of ids that a read may return."""

from __future__ import annotations

import random

from aioproducer.outbox.ranges import HIGHEST, LOWEST, gaps_between


def test_ids_in_a_row_have_no_range_between_them() -> None:
    """However many ids are left out, a query has few ranges."""
    assert gaps_between(()) == ([LOWEST], [HIGHEST])
    assert gaps_between(range(7, 5000)) == ([LOWEST, 4999], [7, HIGHEST])
    assert gaps_between([3, 1, 2, 9]) == ([LOWEST, 3, 9], [1, 9, HIGHEST])


def test_each_id_is_skipped_or_in_one_range() -> None:
    """Random ids: nothing is left out by mistake, below, between or above."""
    rng = random.Random(1)
    for _ in range(200):
        skip = set(rng.sample(range(40), rng.randint(0, 40)))
        lows, highs = gaps_between(skip)
        for number in range(-2, 43):
            ranges = sum(low < number < high for low, high in zip(lows, highs, strict=True))
            assert ranges == (number not in skip), (skip, number)

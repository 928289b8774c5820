"""The ranges of ids that a read may return."""

from __future__ import annotations

import random

from aioproducer.outbox.ranges import HIGHEST, LOWEST, gaps_between


def test_ids_in_a_row_have_no_range_between_them() -> None:
    """However many ids are left out, a query has few ranges."""
    assert gaps_between(()) == ([LOWEST], [HIGHEST])
    assert gaps_between(range(7, 5000)) == ([LOWEST, 5000], [6, HIGHEST])
    assert gaps_between([3, 1, 2, 9]) == ([LOWEST, 4, 10], [0, 8, HIGHEST])


def test_the_ends_of_the_numbers() -> None:
    """The lowest and the highest number of the column are ids as others, and no bound is beyond them."""
    assert (LOWEST, HIGHEST) == (-(2**63), 2**63 - 1)
    assert gaps_between([LOWEST]) == ([LOWEST + 1], [HIGHEST])
    assert gaps_between([HIGHEST]) == ([LOWEST], [HIGHEST - 1])
    assert gaps_between([HIGHEST, LOWEST, 0]) == ([LOWEST + 1, 1], [-1, HIGHEST - 1])


def test_each_id_is_skipped_or_in_one_range() -> None:
    """Random ids: nothing is left out by mistake, below, between or above."""
    rng = random.Random(1)
    for _ in range(200):
        skip = set(rng.sample(range(40), rng.randint(0, 40)))
        firsts, lasts = gaps_between(skip)
        for number in range(-2, 43):
            ranges = sum(first <= number <= last for first, last in zip(firsts, lasts, strict=True))
            assert ranges == (number not in skip), (skip, number)

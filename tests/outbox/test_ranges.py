"""The ranges of ids that a read may return."""

from __future__ import annotations

import random

import pytest

from aioproducer.outbox import ranges
from aioproducer.outbox.ranges import FEW, HIGHEST, LEAST_RUN, LOWEST, gaps_between


def test_ids_in_a_row_have_no_range_between_them() -> None:
    """However many ids are left out, a query has few ranges."""
    assert gaps_between(()) == ([LOWEST], [HIGHEST], [])
    assert gaps_between(range(7, 5000)) == ([LOWEST, 5000], [6, HIGHEST], [])
    assert gaps_between([3, 1, 2, 9]) == ([LOWEST, 4, 10], [0, 8, HIGHEST], [])


def test_the_ends_of_the_numbers() -> None:
    """The lowest and the highest number of the column are ids as others, and no bound is beyond them."""
    assert (LOWEST, HIGHEST) == (-(2**63), 2**63 - 1)
    assert gaps_between([LOWEST]) == ([LOWEST + 1], [HIGHEST], [])
    assert gaps_between([HIGHEST]) == ([LOWEST], [HIGHEST - 1], [])
    assert gaps_between([HIGHEST, LOWEST, 0]) == ([LOWEST + 1, 1], [-1, HIGHEST - 1], [])


def test_many_scattered_ids_divide_no_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are left out one by one, and longer runs by ranges; few or too many of them are ranges as well."""
    scattered = list(range(0, 4 * FEW, 4))
    assert len(gaps_between(scattered)[0]) == FEW + 1
    scattered.append(4 * FEW)
    assert gaps_between(scattered) == ([LOWEST], [HIGHEST], scattered)
    behind = 10 * FEW
    skip = [*scattered, *range(behind, behind + LEAST_RUN)]
    assert gaps_between(skip) == ([LOWEST, behind + LEAST_RUN], [behind - 1, HIGHEST], scattered)
    skip = [*scattered, *range(behind, behind + LEAST_RUN - 1)]
    assert gaps_between(skip) == ([LOWEST], [HIGHEST], skip)
    monkeypatch.setattr(ranges, "MOST", FEW)
    assert len(gaps_between(scattered)[0]) == FEW + 2


@pytest.mark.parametrize("few", [0, 5, 100])
def test_each_id_is_skipped_or_in_one_range(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random ids: nothing is left out by mistake, below, between or above."""
    monkeypatch.setattr(ranges, "FEW", few)
    rng = random.Random(1)
    for _ in range(200):
        skip = set(rng.sample(range(40), rng.randint(0, 40)))
        firsts, lasts, scattered = gaps_between(skip)
        assert skip.issuperset(scattered)
        for number in range(-2, 43):
            found = sum(first <= number <= last for first, last in zip(firsts, lasts, strict=True))
            assert found == (number not in skip or number in scattered), (skip, number)

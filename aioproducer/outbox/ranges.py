"""The ids that a read may return, as ranges: few of them, however many ids are left out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

__all__ = ["gaps_between"]

# Of a bigint.
LOWEST: Final = -(2**63)
HIGHEST: Final = 2**63 - 1


# A range costs a read of PostgreSQL as much as so many ids in a row that it leaves out one by one.
LEAST_RUN: Final = 4
# More ids than these are left out one by one, if they are scattered; fewer cost less as ranges.
FEW: Final = 50
# They are hashed as long as the memory of a statement has room for them. With more, each row would be compared with all.
MOST: Final = 20_000


def gaps_between(skip: Collection[int]) -> tuple[list[int], list[int], list[int]]:
    """The ranges of ids outside of `skip`: their first and their last ids; and ids of `skip` that are in these ranges.

    Ids in a row leave no range between them, so a read does not touch rows that were read before. Scattered ids do not
    divide a range if they are many.
    """
    runs = _runs(skip)
    scattered = sum([end - start for start, end in runs if end - start < LEAST_RUN])
    least_run = LEAST_RUN if FEW < scattered <= MOST else 1
    firsts: list[int] = []
    lasts: list[int] = []
    inside: list[int] = []
    first = LOWEST
    for start, end in runs:
        if end - start >= least_run:
            if start > first:
                firsts.append(first)
                lasts.append(start - 1)
            first = end
        elif end == start + 1:
            inside.append(start)
        else:
            inside.extend(range(start, end))
    if first <= HIGHEST:
        firsts.append(first)
        lasts.append(HIGHEST)
    return firsts, lasts, inside


def _runs(numbers: Collection[int]) -> list[tuple[int, int]]:
    """The first number of each run, and the one behind its last."""
    if not numbers:
        return []
    in_order = sorted(numbers)
    runs = []
    start = end = in_order[0]
    for one in in_order:
        if one != end:
            runs.append((start, end))
            start = one
        end = one + 1
    runs.append((start, end))
    return runs

"""The ids that a read may return, as ranges: few of them, however many ids are left out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

__all__ = ["gaps_between"]

# Of a bigint.
LOWEST: Final = -(2**63)
HIGHEST: Final = 2**63 - 1


def gaps_between(skip: Collection[int]) -> tuple[list[int], list[int]]:
    """The ranges of ids outside of `skip`: their first and their last ids.

    Ids in a row leave no range between them, so a read does not touch rows that were read before.
    """
    firsts, lasts = [], []
    first = LOWEST
    for one in sorted(skip):
        if one > first:
            firsts.append(first)
            lasts.append(one - 1)
        first = one + 1
    if first <= HIGHEST:
        firsts.append(first)
        lasts.append(HIGHEST)
    return firsts, lasts

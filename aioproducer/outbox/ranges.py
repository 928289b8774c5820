"""The ids that a read may return, as ranges: few of them, however many ids are left out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

__all__ = ["gaps_between"]

LOWEST: Final = -(2**63)
HIGHEST: Final = 2**63 - 1


def gaps_between(skip: Collection[int]) -> tuple[list[int], list[int]]:
    """The ranges of ids outside of `skip`: their lower and their upper bounds, which do not belong to them.

    Ids in a row leave no range between them, so a read does not touch rows that were read before.
    """
    lows, highs = [LOWEST], []
    for one in sorted(skip):
        if one - lows[-1] > 1:
            highs.append(one)
            lows.append(one)
        else:
            lows[-1] = one
    highs.append(HIGHEST)
    return lows, highs

"""Whether a row of measurements grows: pure functions over times and values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

import attrs

FEWEST: Final = 12
"""Measurements below which nothing is said: chance alone would look like growth."""
_ERRORS: Final = 2.0
_MOST_LIKE_THE_LAST: Final = 0.95


@attrs.frozen
class Slope:
    """A straight line's rise by the hour, and how far it may be off: two standard errors."""

    per_hour: float
    uncertainty: float

    def clearly_above(self, bound: float) -> bool:
        """Is it above the bound even if it is as far off as it may be?"""
        return self.per_hour - self.uncertainty > bound


def second_half(row: Sequence[float]) -> Sequence[float]:
    """What came after warming up."""
    return row[len(row) // 2 :]


def slope(seconds: Sequence[float], values: Sequence[float]) -> Slope | None:
    """The slope by least squares; None where there is too little to say."""
    count = len(values)
    if count < FEWEST // 2 or seconds[-1] <= seconds[0]:
        return None
    mean_time, mean_value = math.fsum(seconds) / count, math.fsum(values) / count
    spread = math.fsum((time - mean_time) ** 2 for time in seconds)
    pairs = zip(seconds, values, strict=True)
    rise = math.fsum((time - mean_time) * (value - mean_value) for time, value in pairs) / spread
    pairs = zip(seconds, values, strict=True)
    left = [value - mean_value - rise * (time - mean_time) for time, value in pairs]
    variance = math.fsum(one * one for one in left) / (count - 2)
    error = math.sqrt(variance / spread) * _widening(left)
    return Slope(rise * 3600, _ERRORS * error * 3600)


def _widening(left: Sequence[float]) -> float:
    """Memory moves in steps that stay: measurements that resemble the last one tell less than as many free ones."""
    squares = math.fsum(one * one for one in left)
    if squares == 0:
        return 1.0
    likeness = math.fsum(one * other for one, other in itertools.pairwise(left)) / squares
    likeness = min(max(likeness, 0.0), _MOST_LIKE_THE_LAST)
    return math.sqrt((1 + likeness) / (1 - likeness))


def growth(values: Sequence[float]) -> float:
    """By how much the smallest of the last quarter exceeds the largest of the first half; 0 if it does not.

    What comes and goes is in both; what stays is not. The first tenth is warming up.
    """
    count = len(values)
    if count < FEWEST:
        return 0.0
    early, late = values[count // 10 : count // 2], values[-(count // 4) :]
    return max(0.0, min(late) - max(early))

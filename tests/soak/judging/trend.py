"""Growth of a row of measurements: pure functions over times and values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

import attrs

FEWEST: Final = 12
"""With fewer measurements there is no result: noise alone would look like growth."""
_ERRORS: Final = 2.0
_MOST_LIKE_THE_LAST: Final = 0.95


@attrs.frozen
class Slope:
    """A straight line's rise by the hour, and its uncertainty: two standard errors."""

    per_hour: float
    uncertainty: float

    def clearly_above(self, bound: float) -> bool:
        """Is it above the bound even at its lowest likely value?"""
        return self.per_hour - self.uncertainty > bound

    def rise(self, seconds: Sequence[float]) -> float:
        """The rise from the first of these times to the last."""
        return self.per_hour * (seconds[-1] - seconds[0]) / 3600


def second_half(row: Sequence[float]) -> Sequence[float]:
    """The values after warming up."""
    return row[len(row) // 2 :]


def slope(seconds: Sequence[float], values: Sequence[float]) -> Slope | None:
    """The slope by least squares; None with too few values."""
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
    """Memory moves in steps that stay: measurements that resemble the last one carry less information than independent ones."""
    squares = math.fsum(one * one for one in left)
    if squares == 0:
        return 1.0
    likeness = math.fsum(one * other for one, other in itertools.pairwise(left)) / squares
    likeness = min(max(likeness, 0.0), _MOST_LIKE_THE_LAST)
    return math.sqrt((1 + likeness) / (1 - likeness))


def largest_step(values: Sequence[float]) -> float:
    """The largest rise from one value to the next; 0 if there is none."""
    return max([0.0, *(later - earlier for earlier, later in itertools.pairwise(values))])


def growth(values: Sequence[float]) -> float:
    """The excess of the smallest of the last quarter over the largest of the first half; 0 if there is none.

    A temporary rise is in both; a lasting one is not. The first tenth is warming up.
    """
    count = len(values)
    if count < FEWEST:
        return 0.0
    early, late = values[count // 10 : count // 2], values[-(count // 4) :]
    return max(0.0, min(late) - max(early))

"""A histogram that takes values."""

from __future__ import annotations

from aioproducer._core import Distribution
from aioproducer.stats import Histogram


class Buckets(Distribution):
    """Counts of values in fixed buckets, and their sum."""

    __slots__ = ()

    def snapshot(self) -> Histogram:
        """The counts so far. For any thread."""
        return Histogram(self.bounds, self.counts, self.total)

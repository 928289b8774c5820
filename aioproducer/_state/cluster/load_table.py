"""A choice among the partitions of a topic, by the lengths of their queues and the racks of their leaders."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import Protocol

import attrs


class Random(Protocol):
    """The methods of `random.Random` that the machines use."""

    def random(self) -> float:
        """A number of [0, 1)."""

    def randrange(self, stop: int, /) -> int:
        """A whole number of [0, stop)."""


def in_rack(partitions: Sequence[int], racks: Sequence[str | None], rack: str | None) -> Sequence[int]:
    """Those of `partitions` whose leader stands in `rack`, or all of them if none does or no rack is asked for.

    `racks` has the rack of the leader of each partition, by index.
    """
    if not rack:
        return partitions
    return [partition for partition in partitions if racks[partition] == rack] or partitions


@attrs.frozen
class LoadTable:
    """A choice among partitions, prepared once, so that each draw is O(log n).

    `cumulative` is None where all partitions are equally likely.
    """

    partitions: Sequence[int]
    cumulative: Sequence[int] | None = None

    @classmethod
    def of(
        cls,
        queue_sizes: Sequence[int] | None,
        available: Sequence[int],
        count: int,
        excluded: Collection[int] = (),
    ) -> LoadTable:
        """The table for a topic of `count` partitions.

        `queue_sizes`: batches that wait, by partition; None without adaptive choice, or while not every partition has
        a queue. `available`: partitions that have a leader (in the wanted rack). `excluded`: partitions whose broker
        has not taken anything for `partitioner_availability_timeout_ms`.
        """
        everywhere = available or range(count)
        if queue_sizes is None or len(queue_sizes) < count:
            return cls(everywhere)
        candidates = (
            [partition for partition in available if partition not in excluded] if excluded else available
        )
        if not candidates:
            return cls(everywhere)
        return cls._weighted(candidates, [queue_sizes[partition] for partition in candidates])

    @classmethod
    def _weighted(cls, candidates: Sequence[int], sizes: Sequence[int]) -> LoadTable:
        longest = max(sizes)
        if min(sizes) == longest:
            return cls(candidates)
        # BuiltInPartitioner: the longest queue keeps the weight 1, an empty one gets the most.
        return cls(candidates, list(itertools.accumulate(longest + 1 - size for size in sizes)))

    def choose(self, rng: Random) -> int:
        """One partition, by weight."""
        if self.cumulative is None:
            return self.partitions[rng.randrange(len(self.partitions))]
        drawn = rng.randrange(self.cumulative[-1])
        # Strictly greater: partition 0 of weight w owns the draws 0 to w-1.
        return self.partitions[bisect_right(self.cumulative, drawn)]

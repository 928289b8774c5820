"""Which partition records without a key go to: one until its batch is full, then one with a short queue."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs

from aioproducer._state.batching.queues import NO_LEADER

if TYPE_CHECKING:
    from aioproducer._state.batching.accumulator import Limits
    from aioproducer._state.batching.queues import NodeQueue, TopicQueues

# To look at each partition takes about 0.3 us: the table of loads of a large topic is kept for a while (0.1 s for 10,000
# partitions), so that the cost of a record does not grow with the partitions.
SMALL_TOPIC = 64
LOAD_KEEPS = 1e-5


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


class StickyChoice:
    """Chooses the next sticky partition when the fast path asks for it."""

    def __init__(self, limits: Limits, rng: Random) -> None:
        self.limits = limits
        self.rng = rng
        # The rack of each broker.
        self.racks: dict[int, str | None] = {}

    def switch(self, topic: TopicQueues, now: float) -> None:
        """Choose the sticky partition: adaptively by load, among partitions with a leader."""
        if topic.load is None or now >= topic.load_until:
            topic.load = self._load_of(topic, now)
            count = len(topic.partitions)
            topic.load_until = now + (count * LOAD_KEEPS if count > SMALL_TOPIC else 0.0)
        topic.sticky = topic.queues()[topic.load.choose(self.rng)]
        topic.sticky_bytes = 0

    def _load_of(self, topic: TopicQueues, now: float) -> LoadTable:
        everything = range(len(topic.partitions))
        available = [index for index in everything if topic.leaders[index] != NO_LEADER]
        racks = [self.racks.get(leader) for leader in topic.leaders]
        near = in_rack(available, racks, self.limits.rack)
        sizes = [len(queue.queue) for queue in topic.queues()] if self.limits.adaptive else None
        stalled = [index for index in near if self._stalled(topic.queues()[index].node, now)]
        return LoadTable.of(sizes, near, len(everything), stalled)

    def _stalled(self, node: NodeQueue, now: float) -> bool:
        timeout = self.limits.availability_timeout
        return timeout > 0 and bool(node.ready) and now - node.waiting_since > timeout

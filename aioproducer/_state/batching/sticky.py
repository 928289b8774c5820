"""Which partition records without a key go to: one until its batch is full, then one with a short queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.cluster.load_table import LoadTable, in_rack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aioproducer._state.batching.limits import Limits
    from aioproducer._state.cluster.load_table import Random
    from aioproducer._state.queues.partition_queue import NodeQueue, TopicQueues

# To look at each partition takes about 0.3 us: the table of loads of a large topic is kept for a while (0.1 s for 10,000
# partitions), so that the cost of a record does not grow with the partitions.
SMALL_TOPIC = 64
LOAD_KEEPS = 1e-5


class StickyChoice:
    """Chooses the next sticky partition when the fast path asks for it."""

    def __init__(self, limits: Limits, rng: Random, nodes: Mapping[int, NodeQueue]) -> None:
        self.limits = limits
        self.rng = rng
        self.nodes = nodes
        # The rack of each broker.
        self.racks: dict[int, str | None] = {}

    def switch(self, topic: TopicQueues, now: float) -> None:
        """Choose the sticky partition: adaptively by load, among partitions with a leader."""
        if topic.load is None or now >= topic.load_until:
            topic.load = self._load_of(topic, now)
            count = len(topic.partitions)
            topic.load_until = now + (count * LOAD_KEEPS if count > SMALL_TOPIC else 0.0)
        topic.sticky = topic.queue(topic.load.choose(self.rng))
        topic.sticky_bytes = 0

    def _load_of(self, topic: TopicQueues, now: float) -> LoadTable:
        everything = range(len(topic.partitions))
        racks = [self.racks.get(leader) for leader in topic.leaders]
        near = in_rack(topic.available, racks, self.limits.rack)
        sizes = self._sizes(topic) if self.limits.adaptive else None
        stalled = self._stalled(now)
        avoided = [index for index in near if topic.leaders[index] in stalled] if stalled else []
        return LoadTable.of(sizes, near, len(everything), avoided)

    @staticmethod
    def _sizes(topic: TopicQueues) -> list[int]:
        sizes = [0] * len(topic.partitions)
        for queue in topic.in_use:
            # Partitions that go away at this moment are still in use.
            if queue.index < len(sizes):
                sizes[queue.index] = len(queue.queue)
        return sizes

    def _stalled(self, now: float) -> set[int]:
        """The brokers that have taken nothing for too long."""
        timeout = self.limits.availability_timeout
        if timeout <= 0:
            return set()
        return {
            each.node_id for each in self.nodes.values() if each.ready and now - each.waiting_since > timeout
        }

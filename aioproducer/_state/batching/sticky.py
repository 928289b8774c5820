"""Which partition records without a key go to: one until its batch is full, then one with a short queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.cluster.load_table import LoadTable, in_rack
from aioproducer._state.queues.partition_queue import NO_LEADER

if TYPE_CHECKING:
    from aioproducer._state.batching.limits import Limits
    from aioproducer._state.cluster.load_table import Random
    from aioproducer._state.queues.partition_queue import NodeQueue, TopicQueues

# To look at each partition takes about 0.3 us: the table of loads of a large topic is kept for a while (0.1 s for 10,000
# partitions), so that the cost of a record does not grow with the partitions.
SMALL_TOPIC = 64
LOAD_KEEPS = 1e-5


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

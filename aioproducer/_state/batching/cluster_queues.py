"""The queues of all topics and brokers: they follow the metadata of the cluster, and share the memory among brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from aioproducer._core import Budget, MemoryShare
from aioproducer._state.cluster.facts import NO_TOPIC_ID
from aioproducer._state.effects import event
from aioproducer._state.queues.batches import NO_OFFSET
from aioproducer._state.queues.gapless import gap_of
from aioproducer._state.queues.partition_queue import (
    NO_LEADER,
    NO_LOSS,
    NodeQueue,
    PartitionQueue,
    TopicQueues,
)

if TYPE_CHECKING:
    from collections.abc import Container

    from aioproducer._state.batching.accumulator import Accumulator
    from aioproducer._state.cluster.reach import Reach


@attrs.frozen
class Learned:
    """The changes of one topic by a metadata answer, for admission and settlement.

    `moved`: partitions that were known and have another leader. `gone`: partitions that the topic no longer has.
    `remade`: it was deleted and created again.
    """

    topic: TopicQueues
    moved: list[PartitionQueue]
    gone: list[PartitionQueue]
    remade: bool


def _move(queue: PartitionQueue, share: MemoryShare) -> None:
    """The memory of a partition counts as held for its new leader from now on."""
    queue.share = share
    for batch in dict.fromkeys((*queue.queue, *queue.sent)):
        batch.share.release(batch.charged)
        share.charge(batch.charged)
        batch.share = share


class ClusterQueues:
    """The topics and brokers that are known, each with its queues."""

    def __init__(self, accumulator: Accumulator, budget: Budget, reach: Reach) -> None:
        self.accumulator = accumulator
        self.effects = accumulator.effects
        self.limits = accumulator.limits
        self.sequences = accumulator.sequences
        self.reach = reach
        self.budget = budget
        self.topic_budgets = {
            name: Budget(min(limit, budget.capacity), budget)
            for name, limit in self.limits.topic_buffers.items()
        }
        self.topics: dict[str, TopicQueues] = {}
        self.nodes: dict[int, NodeQueue] = {}
        # Brokers that do not answer.
        self.dead: set[int] = set()

    def node(self, node_id: int) -> NodeQueue:
        """The queue of a broker; -1 stands for 'no leader'."""
        found = self.nodes.get(node_id)
        if found is None:
            found = self.nodes[node_id] = NodeQueue(node_id, MemoryShare(self.budget))
            # At once: partitions without a leader must not take all of the memory.
            self.share_memory(self.dead)
        return found

    def trouble_with(self, node_id: int) -> BaseException | None:
        """The known reason why no request can be sent to this broker, if any."""
        node = self.nodes.get(node_id)
        return self.reach.present_error if node is None or node.wakeup is None else node.trouble

    def trouble_at(self, node_id: int) -> BaseException | None:
        """The reason why records of this broker get no memory: it cannot be reached, or other brokers that hold the memory cannot."""
        found = (self.trouble_with(each) for each in (node_id, *sorted(self.dead)))
        return next((trouble for trouble in found if trouble is not None), None)

    def unused_nodes(self, known: Container[int]) -> list[int]:
        """The brokers that are not `known` any more, lead no partition and hold no memory."""
        leading = {leader for topic in self.topics.values() for leader in topic.leaders} | {NO_LEADER}
        return [
            node_id
            for node_id, node in self.nodes.items()
            if node_id not in leading and node_id not in known and node.is_idle
        ]

    def drop_node(self, node_id: int) -> None:
        """Forget an unused broker, which has no share of the memory any more."""
        del self.nodes[node_id]
        self.share_memory(self.dead - {node_id})

    def share_of(self, topic: str, node: NodeQueue) -> MemoryShare:
        """The share of a topic and a broker. Calls that wait for a limited topic do not block other topics."""
        if topic not in self.topic_budgets:
            return node.share
        share = node.own_shares.get(topic)
        if share is None:
            share = node.own_shares[topic] = MemoryShare(self.topic_budgets[topic])
            share.stuck = node.share.stuck
        return share

    @event
    def learn(self, name: str, topic_id: bytes, leaders: tuple[int, ...], now: float) -> Learned:
        """A topic and the leader of each of its partitions became known."""
        topic = self.topics[name] = self._topic(name)
        remade = topic.topic_id not in (topic_id, NO_TOPIC_ID)
        if remade:
            for queue in topic.all_queues():
                self.sequences.remade(queue)
                queue.end_offset = 0
                queue.anchor_offset = NO_OFFSET
        topic.topic_id = topic_id
        topic.load = None
        gone = self._drop_partitions(topic, len(leaders), now)
        for leader in set(leaders):
            self.node(leader)
        # Before there are more partitions: code that a garbage collection runs may use them at once.
        topic.leaders = leaders
        topic.available = tuple(index for index, leader in enumerate(leaders) if leader != NO_LEADER)
        self._grow(topic, len(leaders))
        moved = [queue for queue in topic.in_use if queue.node.node_id != leaders[queue.index]]
        for queue in moved:
            self.lead(queue, leaders[queue.index], now)
        return Learned(topic, moved, gone, remade)

    def _topic(self, name: str) -> TopicQueues:
        topic = self.topics.get(name)
        if topic is None:
            topic = TopicQueues(name, self.accumulator.sticky, self)
            topic.ignore_keys = self.limits.ignore_keys
            topic.custom = self.limits.custom_partitioner
            topic.sticky_limit = self.limits.batch_size
        return topic

    def made(self, topic: TopicQueues, index: int) -> PartitionQueue:
        """A new queue for a partition that is used for the first time."""
        node = self.node(topic.leaders[index])
        return PartitionQueue(topic, index, node, self.share_of(topic.name, node), self.accumulator)

    @staticmethod
    def _grow(topic: TopicQueues, count: int) -> None:
        """The topic has so many partitions now; those that were gone have their former queues again.

        All at once: with only some of them, keys would get other partitions, and code that a garbage collection runs would
        make a second queue for one that was gone.
        """
        known = range(len(topic.partitions), count)
        back = {index: queue for index, queue in topic.gone.items() if index in known}
        more = [back.get(index) for index in known]
        topic.in_use.extend(back.values())
        topic.partitions.extend(more)
        for index in back:
            del topic.gone[index]

    def _drop_partitions(self, topic: TopicQueues, count: int, now: float) -> list[PartitionQueue]:
        """The topic was recreated with fewer partitions: records for the others wait for their deadlines."""
        # First: from now on no record can make a queue for one of them.
        del topic.partitions[count:]
        if topic.sticky is not None and topic.sticky.index >= count:
            topic.sticky = None
        gone = [queue for queue in topic.in_use if queue.index >= count]
        for queue in gone:
            topic.in_use.remove(queue)
            topic.gone[queue.index] = queue
            self.lead(queue, NO_LEADER, now)
        return gone

    def lead(self, queue: PartitionQueue, leader: int, now: float) -> None:
        """The leader of one partition is now this broker (-1: none)."""
        if queue.node.node_id == leader:
            return
        if queue.is_ready:
            queue.node.ready.remove(queue)
            queue.is_ready = False
        # Conclusions about one leader do not hold for another.
        queue.in_order_again()
        queue.node = self.node(leader)
        _move(queue, self.share_of(queue.topic.name, queue.node))
        self.accumulator.update_readiness(queue, now)

    def counted_topics(self) -> set[str]:
        """Topics with counts, or a loss that was not read yet, that must not be forgotten."""
        if not self.sequences.transactional and self.accumulator.lost_at == NO_LOSS:
            return set()
        return {name for name, topic in self.topics.items() if self._must_keep(topic)}

    def _must_keep(self, topic: TopicQueues) -> bool:
        return any(
            self.sequences.must_keep(queue) or gap_of(queue) is not None for queue in topic.all_queues()
        )

    def forget(self, name: str) -> None:
        """Drop an idle topic, if it has nothing buffered and its counts can be replaced."""
        topic = self.topics.get(name)
        if topic is None or self._must_keep(topic):
            return
        queues = topic.all_queues()
        if not any(queue.queue or queue.sent or queue.waiting for queue in queues):
            del self.topics[name]
            topic.forgotten = True
            self.accumulator.ratios.forget(name)
            self.sequences.forgotten(queues)

    def share_memory(self, dead: set[int]) -> None:
        """Brokers that do not answer may hold half of the memory together, while others are alive.

        Partitions without a leader count with them: most often a broker that has just stopped was their leader. A broker may take
        much more until its silence is detected: an eighth is reserved, in equal parts, for brokers that hold little.
        """
        self.dead = dead
        slow = {*dead, NO_LEADER}
        all_slow = slow.issuperset(self.nodes)
        brokers = len(self.nodes.keys() - {NO_LEADER})
        for budget in (self.budget, *self.topic_budgets.values()):
            budget.stuck_limit = budget.capacity if all_slow else budget.capacity // 2
            budget.kept = budget.capacity // 8 if brokers > 1 else 0
            budget.part = budget.kept // max(1, brokers)
        for node_id, node in self.nodes.items():
            for share in node.shares():
                share.stuck = node_id in slow

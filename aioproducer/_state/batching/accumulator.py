"""The accumulator: which batches are open, which are ready, and what goes into the next request of a broker.

Events go in with `now`, and their effects come out in `Effects`: brokers that have something to send, when something is due,
batches to compress, room. Nothing here scans all partitions: ready queues and deadlines find the work.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs

from aioproducer._core import BATCH_OVERHEAD, Budget, MemoryShare, Waker
from aioproducer._state.batching.batches import QueuedBatch
from aioproducer._state.batching.compression_ratio import CompressionRatios
from aioproducer._state.batching.flushing import Flush, cover, pass_on
from aioproducer._state.batching.gapless import gap_of
from aioproducer._state.batching.queues import NO_LEADER, NO_LOSS, NodeQueue, PartitionQueue, TopicQueues
from aioproducer._state.batching.rewriting import without_settled
from aioproducer._state.batching.sequences import Sequences
from aioproducer._state.batching.slowness import PULSE
from aioproducer._state.batching.sticky import LoadTable, in_rack
from aioproducer._state.cluster.facts import NO_TOPIC_ID, OUT_OF_MEMORY
from aioproducer._state.cluster.reach import Reach
from aioproducer._state.deadlines import Deadlines
from aioproducer._state.effects import Effects, event

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from aioproducer._core import Batch
    from aioproducer._state.batching.gapless import Gap
    from aioproducer._state.batching.sticky import Random


# So many queues are made in about a millisecond.
SLICE = 500
# Looking at every partition for the next sticky one takes about 0.3 us each: a large topic's table of loads is kept
# for a while (0.1 s for 10,000 partitions), so that the cost per record does not grow with the partitions.
SMALL_TOPIC = 64
LOAD_KEEPS = 1e-5


@attrs.frozen
class Limits:
    """The settings that the accumulator follows, in seconds and bytes."""

    linger: float
    batch_size: int
    max_request_size: int
    delivery_timeout: float
    codec: int = 0
    adaptive: bool = True
    ignore_keys: bool = False
    custom_partitioner: bool = False
    linger_awaited: bool = False
    # Records without a key prefer leaders in this rack (KIP-1123), and avoid brokers that take nothing for so long.
    rack: str | None = None
    availability_timeout: float = 0.0
    # An open batch refuses records after this time, so that late ones have their full delivery time.
    max_age: float = 1.0
    # How many bytes of `buffer_memory` a topic may hold, where that is limited.
    topic_buffers: Mapping[str, int] = attrs.field(factory=dict, hash=False)


@attrs.frozen
class Learned:
    """What a metadata answer changed in one topic: the caller tells admission and settlement.

    `moved`: partitions that were known and have another leader. `gone`: partitions that the topic no longer has.
    `remade`: it was deleted and created again.
    """

    topic: TopicQueues
    moved: list[PartitionQueue]
    gone: list[PartitionQueue]
    remade: bool


def _never(batch: QueuedBatch, index: int) -> bool:
    del batch, index
    return False


def _has_ended(thing: PartitionQueue | QueuedBatch) -> bool:
    return not isinstance(thing, PartitionQueue) and thing.settled


def _move(queue: PartitionQueue, share: MemoryShare) -> None:
    """What a partition holds counts from now on as held for its new leader."""
    queue.share = share
    for batch in dict.fromkeys((*queue.queue, *queue.sent)):
        batch.share.release(batch.charged)
        share.charge(batch.charged)
        batch.share = share


class Accumulator:
    """All queues of one producer."""

    def __init__(
        self,
        limits: Limits,
        budget: Budget,
        sequences: Sequences,
        rng: Random,
        effects: Effects,
        reach: Reach,
        *,
        loop: Any = None,  # handed to the batches, which wake futures with it; never used here
        unseen_log: list[Any] | None = None,
    ) -> None:
        self.limits = limits
        self.budget = budget
        self.topic_budgets = {
            name: Budget(min(limit, budget.capacity), budget) for name, limit in limits.topic_buffers.items()
        }
        self.sequences = sequences
        self.rng = rng
        self.effects = effects
        self.reach = reach
        self.waker = Waker(loop)
        # Python 3.14 raises SystemError in place of MemoryError from a call with more than ten arguments: these are passed
        # as one mapping.
        self._of_all_batches: dict[str, Any] = {
            "max_age": max(limits.linger, limits.max_age),
            "delivery_timeout": limits.delivery_timeout,
            "loop": loop,
            "waker": self.waker,
            "unseen_log": [] if unseen_log is None else unseen_log,
        }
        self.topics: dict[str, TopicQueues] = {}
        # Topics that are about to be learned.
        self.prepared: dict[str, TopicQueues] = {}
        self.nodes: dict[int, NodeQueue] = {}
        # Brokers that do not answer.
        self.dead: set[int] = set()
        self.racks: dict[int, str | None] = {}
        # All batches with an outcome to come, in the order in which they were opened; those of them whose records
        # have the common delivery time, oldest first. The deadlines of the others are in `deadlines`.
        self.live: dict[QueuedBatch, None] = {}
        # Replacements of batches: they joined `live` later than batches that were opened after them.
        self.replacements: dict[QueuedBatch, None] = {}
        # Records and bytes in flight that have no outcome.
        self.records_in_flight = 0
        self.bytes_in_flight = 0
        # What leaves with a request is being chosen: nothing can be withdrawn, not by a finalizer or a signal handler either.
        self.is_draining = False
        self.aging: OrderedDict[QueuedBatch, None] = OrderedDict()
        self.lingering: dict[PartitionQueue, None] = {}
        self.deadlines: Deadlines[PartitionQueue | QueuedBatch] = Deadlines()
        # There was no memory to note a deadline there.
        self.unwatched = False
        self.ratios = CompressionRatios()
        self.draining_all = False
        self.opened = 0
        # `try_cancel()` needs an answer at once, and the settlement decides it.
        self.withdraw: Callable[[QueuedBatch, int], bool] = _never
        # In gapless mode: when a record was last lost.
        self.lost_at = NO_LOSS

    # -- the map of the cluster

    def node(self, node_id: int) -> NodeQueue:
        """The queue of a broker; -1 stands for 'no leader'."""
        found = self.nodes.get(node_id)
        if found is None:
            found = self.nodes[node_id] = NodeQueue(node_id, MemoryShare(self.budget))
            # Before anything moves to it: what has lost its leader must not take all of the memory meanwhile.
            self.share_memory(self.dead)
        return found

    def trouble_with(self, node_id: int) -> BaseException | None:
        """Why nothing can be sent to this broker, as far as that is known."""
        node = self.nodes.get(node_id)
        return self.reach.present_error if node is None or node.wakeup is None else node.trouble

    def trouble_at(self, node_id: int) -> BaseException | None:
        """Why no room comes for records of this broker: it cannot be reached, or others that hold the memory cannot."""
        found = (self.trouble_with(each) for each in (node_id, *sorted(self.dead)))
        return next((trouble for trouble in found if trouble is not None), None)

    def unused_nodes(self, known: Container[int]) -> list[int]:
        """The brokers that are not `known` any more, lead nothing and hold nothing."""
        if self.prepared:
            # Queues of a topic that is about to be learned may be theirs.
            return []
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
        """The share of a topic at a broker. Calls that wait for a topic's own limit delay no other topic."""
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
        self.prepared.pop(name, None)
        remade = topic.topic_id not in (topic_id, NO_TOPIC_ID)
        if remade:
            for queue in topic.all_queues():
                self.sequences.remade(queue)
                queue.end_offset = 0
        topic.topic_id = topic_id
        topic.load = None
        gone = self._drop_partitions(topic, len(leaders), now)
        for _ in self._growing(topic, leaders):
            pass
        # All at once: with a part of them, keys would get other partitions.
        for queue in topic.more[: len(leaders) - len(topic.partitions)]:
            topic.gone.pop(queue.index, None)
            topic.queues().append(queue)
        topic.more.clear()
        moved = [
            queue
            for queue, leader in zip(topic.queues(), leaders, strict=True)
            if queue.node.node_id != leader
        ]
        for queue in moved:
            self.lead(queue, leaders[queue.index], now)
        topic.leaders = leaders
        return Learned(topic, moved, gone, remade)

    def _topic(self, name: str) -> TopicQueues:
        topic = self.topics.get(name) or self.prepared.get(name)
        if topic is None:
            topic = TopicQueues(name, self)
            topic.ignore_keys = self.limits.ignore_keys
            topic.custom = self.limits.custom_partitioner
            topic.sticky_limit = self.limits.batch_size
        return topic

    def preparing(self, name: str, leaders: tuple[int, ...]) -> Iterator[None]:
        """Make the queues that `learn()` will need, in slices: 200,000 of them hold the loop for a second."""
        topic = self.prepared[name] = self._topic(name)
        return self._growing(topic, leaders)

    def _growing(self, topic: TopicQueues, leaders: tuple[int, ...]) -> Iterator[None]:
        known, more = len(topic.partitions), topic.more
        if more and more[0].index != known:
            # Prepared when the topic had another number of partitions.
            more.clear()
        for index in range(known + len(more), len(leaders)):
            if index % SLICE == SLICE - 1:
                yield
            more.append(
                topic.gone.get(index) or PartitionQueue(topic, index, self.node(leaders[index]), self)
            )

    def _drop_partitions(self, topic: TopicQueues, count: int, now: float) -> list[PartitionQueue]:
        """A recreated topic has fewer partitions: records of the missing ones wait for their deadlines."""
        gone = topic.queues()[count:]
        for queue in gone:
            self.lead(queue, NO_LEADER, now)
            topic.gone[queue.index] = queue
        if topic.sticky in gone:
            topic.sticky = None
        del topic.partitions[count:]
        return gone

    def lead(self, queue: PartitionQueue, leader: int, now: float) -> None:
        """The leader of one partition is now this broker (-1: none)."""
        if queue.node.node_id == leader:
            return
        if queue.is_ready:
            queue.node.ready.remove(queue)
            queue.is_ready = False
        # What one leader has shown says nothing about another.
        queue.in_order_again()
        queue.node = self.node(leader)
        _move(queue, self.share_of(queue.topic.name, queue.node))
        self.update_readiness(queue, now)

    def counted_topics(self) -> set[str]:
        """Topics with counts that must not be forgotten."""
        if not self.sequences.transactional:
            return set()
        return {name for name, topic in self.topics.items() if self._must_keep(topic)}

    def _must_keep(self, topic: TopicQueues) -> bool:
        return any(self.sequences.must_keep(queue) for queue in topic.all_queues())

    def forget(self, name: str) -> None:
        """Drop a topic that was not used for long, if it has nothing buffered and its counts can be replaced."""
        topic = self.topics.get(name)
        if topic is None or self._must_keep(topic):
            return
        queues = topic.all_queues()
        if not any(queue.queue or queue.sent or queue.waiting for queue in queues):
            del self.topics[name]
            topic.forgotten = True
            self.ratios.forget(name)
            self.sequences.forgotten(queues)

    def share_memory(self, dead: set[int]) -> None:
        """Brokers that do not answer may hold half of the memory together, while others are alive.

        With them counts what waits for a leader: most often that is what a broker led that just went down. Until a broker's
        silence is noticed it may take much more: an eighth is kept back, in equal parts, for brokers that hold little.
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

    # -- opening batches

    @event
    def roll(self, queue: PartitionQueue, now: float, *, awaited: bool = False) -> None:
        """Close the open batch of a partition and open the next, which may be awaited from the beginning."""
        closed = queue.open
        queue.topic.used_at = now  # type: ignore[attr-defined]  # a TopicQueues
        # A batch that was closed because it is full will have one like it behind it.
        expected = 0 if closed is None or 2 * closed.size < closed.limit else closed.limit
        gap = gap_of(queue)
        batch = self._new(queue, now, expected=expected, awaited=awaited, gap=gap)
        try:
            self._open(queue, batch, now)
        except BaseException:
            # Without memory for its places: it was never there.
            self._take_back(queue, batch, closed)
            raise

    def _open(self, queue: PartitionQueue, batch: QueuedBatch, now: float) -> None:
        closed = queue.open
        self.live[batch] = None
        self.aging[batch] = None
        queue.queue.append(batch)
        queue.open = batch
        if self.sequences.transactional:
            self.effects.opened.append(queue)
        if closed is not None:
            self._close(closed)  # type: ignore[arg-type]  # opened here as QueuedBatch
        self.update_readiness(queue, now)
        if len(self.aging) == 1:
            self.effects.wake_by(now + min(self.limits.delivery_timeout, PULSE))
        if batch.gap is not None:
            self._set_alarm(batch, now)

    def unroll(self, queue: PartitionQueue) -> None:
        """Take back the open batch of a partition: its first record could not be appended."""
        self._take_back(queue, queue.open, None)  # type: ignore[arg-type]  # opened here as QueuedBatch

    def _take_back(self, queue: PartitionQueue, batch: QueuedBatch, before: Batch | None) -> None:
        queue.open = None if before is None or before.closed else before
        if queue.queue and queue.queue[-1] is batch:
            queue.queue.pop()
        self.live.pop(batch, None)
        self.aging.pop(batch, None)
        self.lingering.pop(queue, None)
        # References to the batch that remain have no effect.
        batch.forward([])

    def _new(
        self, queue: PartitionQueue, now: float, *, expected: int, awaited: bool, gap: Gap | None
    ) -> QueuedBatch:
        limit = self.ratios.plain_limit(
            queue.topic.name, self.limits.codec, self.limits.batch_size, BATCH_OVERHEAD
        )
        # Behind a gap each record has a batch of its own: the sender of the next one may have seen the loss.
        batch = self._make(queue, 1 if gap else limit, now, expected=0 if gap else expected, awaited=awaited)
        batch.gap = gap
        self.opened += 1
        batch.order = (self.opened,)
        batch.linger_at = now + self.limits.linger
        return batch

    def _make(
        self, queue: PartitionQueue, limit: int, now: float, *, expected: int = 0, awaited: bool = False
    ) -> QueuedBatch:
        return QueuedBatch(
            queue.topic.name,
            queue.index,
            limit,
            opened_at=now,
            owner=queue,
            share=queue.share,
            awaited=awaited or self.limits.linger_awaited,
            expected=expected,
            **self._of_all_batches,
        )

    def replacement(self, batch: QueuedBatch, number: int) -> QueuedBatch:
        """A new batch for records that were in `batch`: it takes over its place, its time and its watchers."""
        replacement = self._make(batch.queue, 1 << 30, batch.opened_at)
        replacement.order = (*batch.order, number)
        replacement.share = batch.share
        replacement.attempts, replacement.dirty = batch.attempts, batch.dirty
        replacement.sent_to = batch.sent_to
        replacement.last_error, replacement.gap = batch.last_error, batch.gap
        replacement.linger_at, replacement.urgent = batch.linger_at, True
        replacement.drained_at, replacement.written_at, replacement.answered_at = (
            batch.drained_at,
            batch.written_at,
            batch.answered_at,
        )
        self.live[replacement] = None
        self.replacements[replacement] = None
        return replacement

    def newest(self, queue: PartitionQueue) -> tuple[QueuedBatch, int]:
        """The record that was just appended to this partition, by its batch and index."""
        batch: QueuedBatch = queue.open  # type: ignore[assignment]  # opened here as QueuedBatch
        return batch, batch.record_count - 1

    def _linger(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        if not queue.has_alarm:
            # One alarm per partition: if it comes too early for the batch that lingers by then, it is set anew.
            self.effects.wake_by(batch.linger_at)
            self.deadlines.add(batch.linger_at, queue)
            queue.has_alarm = True
        self.lingering[queue] = None

    def on_timer(self, queue: PartitionQueue, now: float) -> None:
        """A time that was set for this partition has come: the end of a linger or of a backoff."""
        queue.has_alarm = False
        self.lingering.pop(queue, None)
        self.update_readiness(queue, now)

    def _hurried(self, queue: PartitionQueue) -> bool:
        return len(queue.queue) > 1 or self.limits.linger <= 0 or self.draining_all or queue.share.waiting > 0

    def _close(self, batch: QueuedBatch) -> None:
        if batch.closed and (batch.sealing or batch.sealed):
            return
        batch.close()
        batch.plain_size = batch.size
        if self.limits.codec:
            self.effects.closed.append(batch)
            batch.sealing = True
        else:
            batch.sealed = True

    @event
    def compressed(self, batch: QueuedBatch, payload: bytes | None, now: float) -> None:
        """The records of a closed batch were compressed; None: it did not help, they stay as they are."""
        batch.sealing = False
        batch.sealed = True
        if batch.settled:
            return
        plain = batch.size - BATCH_OVERHEAD
        ratio = 1.0 if payload is None else len(payload) / plain
        self.ratios.observe(batch.topic, self.limits.codec, ratio)
        if payload is not None:
            batch.replace_records(payload, self.limits.codec)
        self.update_readiness(batch.queue, now)

    # -- readiness

    def update_readiness(self, queue: PartitionQueue, now: float) -> None:
        """Put a partition into its broker's ready queue if it has something that may leave now."""
        if queue.is_ready or not queue.queue:
            return
        if self._sendable(queue, now):
            # First: if there is no memory for the effect, the next look finds the queue as it was.
            self.effects.nodes[queue.node] = None
            if not queue.node.ready:
                queue.node.waiting_since = now
            queue.node.ready.append(queue)
            queue.is_ready = True
        elif queue not in self.lingering and not self._due(queue, queue.queue[0], now):
            self._linger(queue, queue.queue[0])

    def _sendable(self, queue: PartitionQueue, now: float) -> bool:
        if not queue.queue or queue.node.node_id == NO_LEADER:
            return False
        batch = queue.queue[0]
        if batch.gap is not None and not batch.attempts:
            return False
        # KIP-951: a new leader is worth an attempt at once, whatever the backoff.
        if batch.sealing or (now < batch.retry_at and batch.retry_leader == queue.node.node_id):
            return False
        return self._due(queue, batch, now) and self.sequences.may_send(queue, batch, now)

    def _due(self, queue: PartitionQueue, batch: QueuedBatch, now: float) -> bool:
        return (
            batch.closed
            or batch.urgent
            or (batch.awaited and not self.limits.linger_awaited)
            or now >= batch.linger_at
            or self._hurried(queue)
        )

    @event
    def send_now(self, batch: QueuedBatch) -> None:
        """A caller waits for this batch: it does not linger any longer."""
        if not batch.urgent:
            batch.urgent = True
            # Only an open batch lingers, and that has no backoff for which the time would matter.
            self.update_readiness(batch.queue, batch.opened_at)

    def free_memory_for(self, share: MemoryShare, size: int, now: float) -> None:
        """A record of this size waits for memory of this share: what holds that memory becomes sendable."""
        own = share.budget
        # Where its topic has a limit of its own that is not reached, it waits for what all topics share.
        short = own if own.whole is None or own.used + size > own.capacity - own.kept else own.whole
        # Bytes in flight to the same broker may be enough; otherwise bytes in flight to other brokers.
        is_enough = short.used - share.used + size <= short.capacity - short.kept
        for queue in list(self.lingering):
            if queue.share is share:
                self.update_readiness(queue, now)
            elif not is_enough and short in (queue.share.budget, queue.share.budget.whole):
                queue.queue[0].urgent = True
                self.update_readiness(queue, now)

    @event
    def drain_all(self, now: float) -> None:
        """Nothing lingers from now on: the producer is closing."""
        self.draining_all = True
        self.update_all_readiness(now)

    @event
    def update_readiness_of(self, queues: Iterable[PartitionQueue], now: float) -> None:
        """Look again at these partitions: they may be sent to from now on."""
        for queue in queues:
            self.update_readiness(queue, now)

    @event
    def update_all_readiness(self, now: float) -> None:
        """Look again at every partition that has something buffered: the identity arrived, or all is urgent."""
        for queue in dict.fromkeys(batch.queue for batch in self.live):
            self.update_readiness(queue, now)

    # -- draining

    def has_ready(self, node: NodeQueue, now: float) -> bool:
        """True when the broker has something to send; partitions that are no longer ready leave the ready queue."""
        return bool(node.ready) and (self._sendable(node.ready[0], now) or self._has_other_ready(node, now))

    @event
    def _has_other_ready(self, node: NodeQueue, now: float) -> bool:
        while node.ready:
            queue = node.ready[0]
            if self._sendable(queue, now):
                return True
            self._unready(queue, now)
        return False

    def _unready(self, queue: PartitionQueue, now: float) -> None:
        # What made the queue ready may be gone (withdrawn, expired) and a batch that has to linger in its place.
        queue.node.ready.popleft()
        queue.is_ready = False
        self.update_readiness(queue, now)

    @event
    def close_ready(self, node: NodeQueue, now: float) -> None:
        """Have the open batches compressed that the next request takes."""
        size = 0
        for queue in node.ready:
            if size > self.limits.max_request_size:
                return
            if self._sendable(queue, now):
                batch = queue.queue[0]
                size += batch.size
                if not batch.sealed:
                    self._detach(queue, batch)
                    self._close(batch)

    @event
    def drain(self, node: NodeQueue, now: float) -> list[QueuedBatch]:
        """The batches of one request: one per ready partition, in turn, up to `max_request_size`."""
        used = self.budget.used
        self.is_draining = True
        try:
            taken = self._drained(node, now)
        finally:
            self.is_draining = False
        node.waiting_since = now
        if self.budget.used < used:
            # Records that were withdrawn are left out only now.
            self.effects.room(node.share)
        return taken

    def _drained(self, node: NodeQueue, now: float) -> list[QueuedBatch]:
        taken: list[QueuedBatch] = []
        size = 0
        for _ in range(len(node.ready)):
            queue = node.ready[0]
            batch = self._head_to_send(queue, now)
            if batch is not None and taken and size + batch.size > self.limits.max_request_size:
                break
            if batch is not None:
                self._take(queue, batch, now)
                taken.append(batch)
                size += batch.size
            self._unready(queue, now)
        return taken

    def _head_to_send(self, queue: PartitionQueue, now: float) -> QueuedBatch | None:
        if not self._sendable(queue, now):
            return None
        batch = queue.queue[0]
        if not batch.sealed:
            self._detach(queue, batch)
            self._close(batch)
            if batch.sealing:
                return None
        if batch.has_individual and not batch.attempts:
            batch = self._rewritten(queue, batch)
        return batch

    @event
    def shut(self, batch: QueuedBatch, now: float) -> None:
        """The open batch takes no more records, and leaves as it is."""
        self._detach(batch.queue, batch)
        self._close(batch)
        self.update_readiness(batch.queue, now)

    def _detach(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        # The batch takes no more records: the next record opens another.
        if queue.open is batch:
            queue.open = None
        self.lingering.pop(queue, None)

    def _rewritten(self, queue: PartitionQueue, batch: QueuedBatch) -> QueuedBatch:
        replacement = without_settled(batch, self.replacement)
        replacement.sealed = True
        replacement.plain_size = replacement.size
        queue.queue[0] = replacement
        self.watch_rest(replacement)
        self.retire(batch, to=[replacement])
        return replacement

    def _take(self, queue: PartitionQueue, batch: QueuedBatch, now: float) -> None:
        queue.queue.popleft()
        self._detach(queue, batch)
        self.sequences.give(queue, batch)
        batch.attempts += 1
        batch.in_flight = True
        self.records_in_flight += batch.pending
        self.bytes_in_flight += batch.charged
        # Here and not when it fails: the answer may name the next leader, and that is worth an attempt at once.
        batch.retry_leader = queue.node.node_id
        queue.in_flight += 1
        if batch.drained_at != batch.drained_at:  # NaN: drained for the first time
            batch.drained_at = now

    def watch(self, batch: QueuedBatch, deadline: float) -> None:
        """A record in this batch has a deadline of its own.

        The record has its place: without memory for the alarm, `watch_again()` sets it.
        """
        if batch in self.aging or deadline < batch.watched_until:
            try:
                self._watch(batch, deadline)
            except OUT_OF_MEMORY:
                self.unwatched = True

    @event
    def _watch(self, batch: QueuedBatch, deadline: float) -> None:
        if batch in self.aging:
            # From now on the heap has the earliest deadline of all records of the batch.
            del self.aging[batch]
            deadline = min(deadline, batch.opened_at + batch.delivery_timeout)
        if deadline < batch.watched_until:
            self._set_alarm(batch, deadline)

    def watch_again(self) -> None:
        """Watch for the deadlines that there was no memory to watch for. The timekeeper asks at each pulse."""
        if self.unwatched:
            self.unwatched = False
            for batch in list(self.live):
                self.watch_rest(batch)
                # A record that is accepted from now on may be due before all that are left.
                self.watch(batch, batch.opened_at + batch.delivery_timeout)

    def _set_alarm(self, batch: QueuedBatch, due: float) -> None:
        self.effects.wake_by(due)
        self.deadlines.add(due, batch)
        batch.watched_until = due
        batch.alarms += 1

    def watch_rest(self, batch: QueuedBatch) -> None:
        """The rest of this batch, or records that were moved to it, have deadlines of their own; watch for the next one."""
        self.aging.pop(batch, None)
        batch.watched_until = math.inf
        deadline = batch.next_deadline()
        # Without a waiting record, the batch remains as a place in the sequence.
        self.watch(batch, batch.opened_at + batch.delivery_timeout if deadline is None else deadline)

    def old(self, now: float) -> list[QueuedBatch]:
        """The batches whose first record has had the common delivery time."""
        found = []
        for batch in self.aging:
            if batch.opened_at + batch.delivery_timeout > now:
                break
            found.append(batch)
        return found

    # -- leaving

    def retire(self, batch: QueuedBatch, to: Sequence[QueuedBatch] = ()) -> None:
        """Forget a batch whose records all have their outcome, or live on in `to`."""
        self.live.pop(batch, None)
        self.aging.pop(batch, None)
        if batch.alarms:
            self.deadlines.over(_has_ended, batch.alarms)
            batch.alarms = 0
        if self.replacements:
            self.replacements.pop(batch, None)
        charged, batch.charged = batch.charged, 0
        if batch.in_flight:
            self.bytes_in_flight -= charged
        for replacement in to:
            replacement.charged = min(replacement.size, charged)
            charged -= replacement.charged
        batch.share.release(charged)
        if to:
            pass_on(batch, to)

    def landed(self, batch: QueuedBatch) -> None:
        """An attempt is over, with an answer or without."""
        batch.in_flight = False
        self.records_in_flight -= batch.pending
        self.bytes_in_flight -= batch.charged

    @event
    def send_all_now(self, now: float) -> None:
        """Make everything that is buffered sendable at once."""
        for batch in self.live:
            if batch.pending:
                batch.urgent = True
        self.update_all_readiness(now)

    @event
    def flush(self, now: float) -> Flush:
        """Make everything that is buffered sendable at once, and watch it."""
        flush = Flush()
        cover(flush, self.live)
        self.send_all_now(now)
        return flush

    # -- choosing partitions

    def switch_sticky(self, topic: TopicQueues, now: float) -> None:
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

    # -- time

    def oldest_unacked(self) -> float | None:
        """When the oldest record without an outcome was accepted. May raise RuntimeError in other threads."""
        oldest: float | None = None
        for batch in chain(self.replacements, self.live):
            if oldest is not None and batch.opened_at >= oldest and len(batch.order) == 1:
                # The batches behind this one are younger still.
                break
            since = batch.waiting_since()
            if since is not None and (oldest is None or since < oldest):
                oldest = since
        return oldest

    def next_deadline(self) -> float | None:
        """When something becomes due that no event announces: a linger, the end of a backoff, a record's end."""
        earliest = self.deadlines.earliest()
        oldest = next(iter(self.aging), None)
        if oldest is None:
            return earliest
        deadline = oldest.opened_at + oldest.delivery_timeout
        return deadline if earliest is None else min(earliest, deadline)

"""The queues: per partition a deque of batches whose last is open, per broker the partitions that are ready."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from aioproducer._core import MemoryShare, Partition, Topic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aioproducer._state.cluster.load_table import LoadTable
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.gapless import Gap
    from aioproducer.errors import KafkaError
    from aioproducer.records import Resolution

NO_LEADER = -1
NO_LOSS = -math.inf
NEVER = -math.inf


class Anchor(NamedTuple):
    """The last record of the newest batch that was acknowledged with an offset: later batches come behind it."""

    offset: int
    identity: tuple[int, int] | None
    sequence: int


class Wakes(Protocol):
    """Wakes a task."""

    def ring(self) -> None: ...


class OpensBatches(Protocol):
    """The methods of the accumulator that a partition calls for the compiled fast path."""

    def roll(self, queue: PartitionQueue, now: float, awaited: bool = False) -> None: ...

    def unroll(self, queue: PartitionQueue) -> None: ...

    def send_now(self, batch: QueuedBatch) -> None: ...

    @property
    def withdraw(self) -> Callable[[QueuedBatch, int], bool]: ...

    @property
    def resolve(self) -> Callable[[QueuedBatch, int, float | None], Awaitable[Resolution]]: ...


class MakesQueues(Protocol):
    """Makes the queue of a partition."""

    def made(self, topic: TopicQueues, index: int) -> PartitionQueue: ...


class ChoosesPartitions(Protocol):
    """Chooses the sticky partition of a topic."""

    def switch(self, topic: TopicQueues, now: float) -> None: ...


class NodeQueue:
    """The ready partitions of one broker, and its share of the memory."""

    __slots__ = ("node_id", "own_shares", "ready", "share", "trouble", "waiting_since", "wakeup")

    def __init__(self, node_id: int, share: MemoryShare) -> None:
        self.node_id = node_id
        self.share = share
        # Its shares of the budgets that topics of their own limit have.
        self.own_shares: dict[str, MemoryShare] = {}
        self.ready: deque[PartitionQueue] = deque()
        # The time since which partitions are ready and no request was sent.
        self.waiting_since = 0.0
        # Wakes the sender of the broker; None before the sender exists.
        self.wakeup: Wakes | None = None
        # The reason why the sender has no connection, if there is one.
        self.trouble: KafkaError | None = None

    def shares(self) -> list[MemoryShare]:
        """All shares that lead to this broker."""
        return [self.share, *self.own_shares.values()]

    @property
    def is_idle(self) -> bool:
        """True when nothing is ready, buffered or waited for."""
        return not self.ready and not any(share.used or share.waiting for share in self.shares())

    def __repr__(self) -> str:
        return f"<NodeQueue {self.node_id}: {len(self.ready)} partitions ready>"


class PartitionQueue(Partition):
    """One partition: its batches in order, those that were sent and have no outcome yet, and its sequence numbers.

    `queue` holds the unsent batches; retried batches are at its head, in order. `sent` holds every batch that has a
    sequence number and no outcome, in that order; a batch that waits for its retry is in both.
    """

    __slots__ = (
        "__weakref__",
        "accumulator",
        "ahead",
        "anchor",
        "broken",
        "confirmed_at",
        "end_offset",
        "gap",
        "has_alarm",
        "identity",
        "in_flight",
        "is_ready",
        "lost_at",
        "newest_acked",
        "next_sequence",
        "node",
        "numbered",
        "numbered_before",
        "queue",
        "sent",
    )

    def __init__(
        self, topic: TopicQueues, index: int, node: NodeQueue, share: MemoryShare, accumulator: OpensBatches
    ) -> None:
        super().__init__(topic, index, share)
        self.accumulator = accumulator
        self.node = node
        self.queue: deque[QueuedBatch] = deque()
        self.sent: list[QueuedBatch] = []
        self.in_flight = 0
        self.is_ready = False
        self.has_alarm = False
        self.identity: tuple[int, int] | None = None
        self.next_sequence = 0
        # The number of batches that were given sequence numbers.
        self.numbered = 0
        # The same number when the topic was recreated.
        self.numbered_before = 0
        # When a batch of this producer id was last acknowledged: the leader knew then which number comes next.
        self.confirmed_at = NEVER
        # The sequence has a gap that no batch will fill: only a new epoch goes on from here.
        self.broken = False
        # The offset after the last record that was acknowledged.
        self.end_offset = 0
        self.anchor: Anchor | None = None
        self.newest_acked: tuple[int, ...] = ()
        # Repeated before the batches that were sent before it, see Sequences.newer_in_doubt().
        self.ahead: QueuedBatch | None = None
        # In gapless mode: the loss that was not noticed yet, and the time of the last loss.
        self.gap: Gap | None = None
        self.lost_at = NO_LOSS

    def roll(self, now: float, awaited: bool) -> None:
        """Close the open batch and open the next; called by the fast path when a record does not fit."""
        self.accumulator.roll(self, now, awaited)

    def unroll(self) -> None:
        """Take back the open batch, which has no record; called by the fast path when the first cannot be appended."""
        self.accumulator.unroll(self)

    def on_awaited(self, batch: QueuedBatch) -> None:
        """A caller waits for a record of this batch. The core calls this once."""
        self.accumulator.send_now(batch)

    def withdraw(self, batch: QueuedBatch, index: int) -> bool:
        """Take one record out of a batch that was not drained; called by `Delivery.try_cancel`."""
        return self.accumulator.withdraw(batch, index)

    def resolve(self, batch: QueuedBatch, index: int, timeout: float | None) -> Awaitable[Resolution]:
        """Look for one record in the log; called by `Delivery.resolve_unknown`."""
        return self.accumulator.resolve(batch, index, timeout)

    def newest(self) -> tuple[QueuedBatch, int]:
        """The batch and the index of the record that was appended last."""
        batch: QueuedBatch = self.open  # type: ignore[assignment]  # opened by the accumulator as QueuedBatch
        return batch, batch.record_count - 1

    def put_back(self, batch: QueuedBatch) -> None:
        """Return a batch to the head of the deque, in order among those that were put back before it."""
        behind: list[QueuedBatch] = []
        while self.queue and self.queue[0].order < batch.order:
            behind.append(self.queue.popleft())
        self.queue.appendleft(batch)
        self.queue.extendleft(reversed(behind))

    def has_others_to_retry(self, batch: QueuedBatch) -> bool:
        """True when a batch other than this one waits for its next attempt, or is at it."""
        return any(
            other is not batch and other.last_error is not None and not other.settled
            for other in (*self.queue, *self.sent)
        )

    def ask_ahead(self, batch: QueuedBatch) -> None:
        """Send this batch, which waits to be repeated, before those that were sent before it."""
        self.ahead = batch
        self.queue.remove(batch)
        self.queue.insert(0, batch)
        batch.retry_at = 0.0

    def in_order_again(self) -> None:
        """Nothing is asked for ahead of others any more."""
        batch, self.ahead = self.ahead, None
        if batch is not None and batch in self.queue:
            self.queue.remove(batch)
            self.put_back(batch)

    def __repr__(self) -> str:
        return (
            f"<PartitionQueue {self.topic.name}-{self.index} on {self.node.node_id}: {len(self.queue)} queued, "
            f"{self.in_flight} in flight>"
        )


class TopicQueues(Topic):
    """One topic: its partitions, and the choice of the sticky one."""

    __slots__ = (
        "available",
        "chooser",
        "gone",
        "in_use",
        "leaders",
        "load",
        "load_until",
        "maker",
        "topic_id",
        "used_at",
    )

    def __init__(self, name: str, chooser: ChoosesPartitions, maker: MakesQueues) -> None:
        super().__init__(name)
        self.chooser = chooser
        self.maker = maker
        self.topic_id = bytes(16)
        self.leaders: tuple[int, ...] = ()
        # The partitions that have a leader.
        self.available: tuple[int, ...] = ()
        # The queues of the partitions that records were sent to, in the order of their first record.
        self.in_use: list[PartitionQueue] = []
        # Partitions of the former topic of this name that the present one does not have. They keep their batches and counts: if
        # the partition comes back, it is the same queue, or two would count for one partition.
        self.gone: dict[int, PartitionQueue] = {}
        self.load: LoadTable | None = None
        self.load_until = 0.0
        self.used_at = 0.0

    def switch(self, now: float) -> None:
        """Choose the next sticky partition; called by the fast path."""
        self.chooser.switch(self, now)

    def queue(self, index: int) -> PartitionQueue:
        """The queue of a partition, made at its first use; called by the fast path."""
        if self.partitions[index] is None:
            made = self.maker.made(self, index)
            # Otherwise a garbage collection meanwhile ran code that used it first.
            if self.partitions[index] is None:
                self.in_use.append(made)
                self.partitions[index] = made
        return self.partitions[index]  # type: ignore[return-value]  # the list is filled here with PartitionQueue only

    def all_queues(self) -> list[PartitionQueue]:
        """The queues of the partitions that are in use, and of those that are gone."""
        return [*self.in_use, *self.gone.values()]

    def __repr__(self) -> str:
        return f"<TopicQueues {self.name}: {len(self.partitions)} partitions>"

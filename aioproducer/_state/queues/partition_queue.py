"""The queues: per partition a deque of batches whose last is open, per broker the partitions that are ready."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from aioproducer._core import MemoryShare, NodeState, PartitionState, Topic

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Awaitable, Callable

    from aioproducer._state.cluster.load_table import LoadTable
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.gapless import Gap
    from aioproducer.errors import KafkaError
    from aioproducer.records import Resolution

NO_LEADER = -1
NO_LOSS = -math.inf
NEVER = -math.inf


class Wakes(Protocol):
    """Wakes a task."""

    def ring(self) -> None: ...


class OpensBatches(Protocol):
    """The methods of the accumulator that a partition calls for the compiled fast path."""

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


class NodeQueue(NodeState):
    """The ready partitions of one broker, and its share of the memory."""

    __slots__ = ("own_shares",)

    ready: deque[PartitionQueue]
    wakeup: Wakes | None
    trouble: KafkaError | None

    def __init__(self, node_id: int, share: MemoryShare) -> None:
        super().__init__(node_id, share)
        # Its shares of the budgets that topics of their own limit have.
        self.own_shares: dict[str, MemoryShare] = {}

    def shares(self) -> list[MemoryShare]:
        """All shares that lead to this broker."""
        return [self.share, *self.own_shares.values()]

    @property
    def is_idle(self) -> bool:
        """True when nothing is ready, buffered or waited for."""
        return not self.ready and not any(share.used or share.waiting for share in self.shares())

    def __repr__(self) -> str:
        return f"<NodeQueue {self.node_id}: {len(self.ready)} partitions ready>"


class PartitionQueue(PartitionState):
    """One partition: its batches in order, those that were sent and have no outcome yet, and its sequence numbers.

    `queue` holds the unsent batches; retried batches are at its head, in order. `sent` holds every batch that has a
    sequence number and no outcome, in that order; a batch that waits for its retry is in both.
    """

    __slots__ = ("__weakref__",)

    accumulator: OpensBatches
    node: NodeQueue
    queue: deque[QueuedBatch]
    sent: list[QueuedBatch]
    ahead: QueuedBatch | None
    gap: Gap | None

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
    )

    def __init__(self, name: str, chooser: ChoosesPartitions, maker: MakesQueues) -> None:
        super().__init__(name)
        self.chooser = chooser
        self.maker = maker
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

"""The accumulator: the open batch of each partition, and the partitions that are ready to be sent.

Events go in with `now`, and their effects come out in `Effects`: brokers with work, the next alarm, batches to compress, room.
Nothing scans all partitions: ready queues and deadlines find the work. The parts have files of their own: the queues of the
cluster, the deadlines of batches, the making of batches, draining, and the choice of the sticky partition.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from aioproducer._core import BATCH_OVERHEAD, Waker
from aioproducer._state.batching.batch_deadlines import PULSE, BatchDeadlines, has_ended
from aioproducer._state.batching.cluster_queues import ClusterQueues
from aioproducer._state.batching.compression_ratio import CompressionRatios
from aioproducer._state.batching.draining import Drainer
from aioproducer._state.batching.making import BatchMaker
from aioproducer._state.batching.sticky import StickyChoice
from aioproducer._state.effects import event
from aioproducer._state.queues.flush import Flush
from aioproducer._state.queues.flushing import cover, pass_on
from aioproducer._state.queues.gapless import gap_of
from aioproducer._state.queues.partition_queue import NO_LEADER, NO_LOSS
from aioproducer.outcome import Outcome
from aioproducer.records import Resolution

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from aioproducer._core import Batch, Budget, MemoryShare
    from aioproducer._state.batching.limits import Limits
    from aioproducer._state.cluster.load_table import Random
    from aioproducer._state.cluster.reach import Reach
    from aioproducer._state.effects import Effects
    from aioproducer._state.identity.sequences import Sequences
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.partition_queue import PartitionQueue


async def _no_connection(batch: QueuedBatch, index: int, timeout: float | None) -> Resolution:
    del batch, index, timeout
    return Resolution(Outcome.UNKNOWN, reason="the producer has no connection")


def _never(batch: QueuedBatch, index: int) -> bool:
    del batch, index
    return False


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
        self.sequences = sequences
        self.effects = effects
        self.waker = Waker(loop)
        self.ratios = CompressionRatios()
        # All batches that have no outcome, in the order in which they were opened.
        self.live: dict[QueuedBatch, None] = {}
        # Records and bytes in flight that have no outcome.
        self.records_in_flight = 0
        self.bytes_in_flight = 0
        self.lingering: dict[PartitionQueue, None] = {}
        self.never_lingers = limits.linger <= 0
        # `try_cancel()` needs an answer at once, and `Endings` decides it.
        self.withdraw: Callable[[QueuedBatch, int], bool] = _never
        # Set by the engine: the question needs connections.
        self.resolve: Callable[[QueuedBatch, int, float | None], Awaitable[Resolution]] = _no_connection
        # In gapless mode: when a record was last lost.
        self.lost_at = NO_LOSS
        self.cluster = ClusterQueues(self, budget, reach)
        self.deadlines = BatchDeadlines(effects, self.live)
        self.maker = BatchMaker(limits, self.ratios, self.deadlines, self.waker, loop, unseen_log)
        self.drainer = Drainer(self)
        self.sticky = StickyChoice(limits, rng, self.cluster.nodes)

    # -- opening batches

    def roll(self, queue: PartitionQueue, now: float, awaited: bool = False) -> None:
        """Close the open batch of a partition and open the next, which may be awaited from the beginning."""
        # Repeats `event`, without packing and unpacking the arguments for each batch.
        effects = self.effects
        if effects.under_way:
            self._roll(queue, now, awaited)
            return
        effects.under_way = True
        try:
            self._roll(queue, now, awaited)
        finally:
            try:
                effects.perform()
            finally:
                effects.under_way = False

    def _roll(self, queue: PartitionQueue, now: float, awaited: bool) -> None:
        closed = queue.open
        queue.topic.used_at = now  # type: ignore[attr-defined]  # a TopicQueues
        # A batch that was closed because it is full will have one like it behind it.
        expected = 0 if closed is None or 2 * closed.size < closed.limit else closed.limit
        gap = None if queue.gap is None else gap_of(queue)
        if gap is not None:
            gap.is_shared = True
        batch = self.maker.new(queue, now, expected, awaited, gap)
        try:
            self._open(queue, batch, now)
        except BaseException:
            # There was no memory for its entries: it is removed from all of them.
            self._take_back(queue, batch, closed)
            raise

    def _open(self, queue: PartitionQueue, batch: QueuedBatch, now: float) -> None:
        closed = queue.open
        self.live[batch] = None
        aging = self.deadlines.aging
        aging[batch] = None
        queue.queue.append(batch)
        queue.open = batch
        if self.sequences.transactional:
            self.effects.opened.append(queue)
        if closed is not None:
            self.close(closed)  # type: ignore[arg-type]  # opened here as QueuedBatch
        self.update_readiness(queue, now)
        if len(aging) == 1:
            self.effects.wake_by(now + min(self.limits.delivery_timeout, PULSE))
        if batch.gap is not None:
            self.deadlines.set_alarm(batch, now)

    def unroll(self, queue: PartitionQueue) -> None:
        """Remove the open batch of a partition: its first record could not be appended."""
        self._take_back(queue, queue.open, None)  # type: ignore[arg-type]  # opened here as QueuedBatch

    def _take_back(self, queue: PartitionQueue, batch: QueuedBatch, before: Batch | None) -> None:
        queue.open = None if before is None or before.closed else before
        if queue.queue and queue.queue[-1] is batch:
            queue.queue.pop()
        self.live.pop(batch, None)
        self.deadlines.aging.pop(batch, None)
        self.lingering.pop(queue, None)
        # Any remaining reference to it finds an ended batch.
        batch.forward([])

    def on_timer(self, queue: PartitionQueue, now: float) -> bool:
        """An alarm of this partition is due, the end of a linger or of a backoff; True: its batch may leave."""
        queue.has_alarm = False
        self.lingering.pop(queue, None)
        self.update_readiness(queue, now)
        return queue.is_ready

    def cut_lingers(self, now: float) -> None:
        """A batch leaves whose linger is over: with it leave all batches that have lingered for half of their time.

        Otherwise each of many partitions with few records would have a request of its own.
        """
        lingers, until = self.deadlines.lingers, now + self.limits.linger / 2
        while lingers and lingers[0][0] <= until:
            queue = lingers.popleft()[1]
            batch = queue.queue[0] if queue.queue else None
            if batch is None or batch.linger_at > until or queue.is_ready:
                # The batch has left, and a younger one may have its place.
                self.on_timer(queue, now)
                continue
            queue.has_alarm = False
            self.lingering.pop(queue, None)
            if now < batch.linger_at:  # noqa: PLR1730  # cheaper than a call of min()
                batch.linger_at = now
            # Whether it may leave is decided where it is drained, as for all that is ready. Without a leader it leaves when
            # there is one: an alarm for the rest of its linger would be due in this loop again, without end.
            if queue.node.node_id != NO_LEADER:
                self._make_ready(queue, now)

    def close(self, batch: QueuedBatch) -> None:
        """The batch takes no more records, and is compressed if a codec is set."""
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
            # Without memory for the copy the plain records are sent. ValueError: a finalizer has ended the batch meanwhile.
            with contextlib.suppress(MemoryError, ValueError):
                batch.replace_records(payload, self.limits.codec)
        self.update_readiness(batch.queue, now)

    # -- readiness

    def update_readiness(self, queue: PartitionQueue, now: float) -> None:
        """Put a partition into its broker's ready queue if it has something that may leave now."""
        if queue.is_ready or not queue.queue:
            return
        batch = queue.queue[0]
        if now < batch.linger_at and not self._is_due(queue, batch):
            if queue not in self.lingering:
                if not queue.has_alarm:
                    # One alarm per partition: if it is too early for the batch that lingers then, it is set again.
                    self.deadlines.linger(queue, batch.linger_at)
                    queue.has_alarm = True
                self.lingering[queue] = None
        elif self._may_leave(queue, batch, now):
            self._make_ready(queue, now)

    def _make_ready(self, queue: PartitionQueue, now: float) -> None:
        node = queue.node
        # First: if there is no memory for the effect, the next look finds the queue as it was.
        self.effects.nodes[node] = None
        if not node.ready:
            node.waiting_since = now
        node.ready.append(queue)
        queue.is_ready = True

    def is_sendable(self, queue: PartitionQueue, now: float) -> bool:
        """Whether the first batch of the partition may leave now."""
        if not queue.queue:
            return False
        batch = queue.queue[0]
        is_due = now >= batch.linger_at or self._is_due(queue, batch)
        return is_due and self._may_leave(queue, batch, now)

    def _is_due(self, queue: PartitionQueue, batch: QueuedBatch) -> bool:
        """Whether the batch leaves before the end of its linger."""
        return (
            batch.urgent
            or self.never_lingers
            or len(queue.queue) > 1
            or batch.closed
            or queue.share.waiting > 0
        )

    def _may_leave(self, queue: PartitionQueue, batch: QueuedBatch, now: float) -> bool:
        """Whether a batch that is due may leave now: its leader is known, its bytes are final, and no other goes before it."""
        node_id = queue.node.node_id
        if node_id == NO_LEADER or batch.sealing or (batch.gap is not None and not batch.attempts):
            return False
        # KIP-951: a new leader is tried at once, without the backoff.
        if now < batch.retry_at and batch.retry_leader == node_id:
            return False
        return self.sequences.may_send(queue, batch, now)

    @event
    def send_now(self, batch: QueuedBatch) -> None:
        """A caller waits for this batch: it does not linger any longer."""
        if not batch.urgent:
            batch.urgent = True
            # Only an open batch lingers, and that has no backoff for which the time would matter.
            self.update_readiness(batch.queue, batch.opened_at)

    def free_memory_for(self, share: MemoryShare, size: int, now: float) -> None:
        """A record of this size waits for memory of this share: the batches that hold this memory become sendable."""
        own = share.budget
        # If its topic has a limit that is not reached, the record waits for the memory of all topics.
        short = own if own.whole is None or own.used + size > own.capacity - own.kept else own.whole
        # The memory of this broker may be enough; otherwise batches for other brokers become sendable too.
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
        self.never_lingers = True
        self.update_all_readiness(now)

    @event
    def update_readiness_of(self, queues: Iterable[PartitionQueue], now: float) -> None:
        """Records may be sent to these partitions from now on."""
        for queue in queues:
            self.update_readiness(queue, now)

    @event
    def update_all_readiness(self, now: float) -> None:
        """Check every partition with buffered records: the identity arrived, or all of it is urgent."""
        for queue in dict.fromkeys(batch.queue for batch in self.live):
            self.update_readiness(queue, now)

    # -- draining

    @event
    def shut(self, batch: QueuedBatch, now: float) -> None:
        """The open batch takes no more records, and leaves as it is."""
        self.detach(batch.queue, batch)
        self.close(batch)
        self.update_readiness(batch.queue, now)

    def detach(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        """The batch takes no more records: the next record opens another."""
        if queue.open is batch:
            queue.open = None
        self.lingering.pop(queue, None)

    # -- leaving

    def retire(self, batch: QueuedBatch, to: Sequence[QueuedBatch] = ()) -> None:
        """Drop a batch whose records all have their outcome, or are in the batches `to`."""
        deadlines = self.deadlines
        self.live.pop(batch, None)
        deadlines.aging.pop(batch, None)
        if batch.alarms:
            deadlines.heap.over(has_ended, batch.alarms)
            batch.alarms = 0
        if deadlines.replacements:
            deadlines.replacements.pop(batch, None)
        charged, batch.charged = batch.charged, 0
        if batch.in_flight:
            self.bytes_in_flight -= charged
        for replacement in to:
            replacement.charged = min(replacement.size, charged)
            charged -= replacement.charged
        batch.share.release(charged)
        if to:
            pass_on(batch, to)

    @event
    def send_all_now(self, now: float) -> None:
        """Make everything that is buffered sendable at once."""
        for batch in self.live:
            if batch.pending:
                batch.urgent = True
        self.update_all_readiness(now)

    @event
    def flush(self, now: float) -> Flush:
        """Make everything that is buffered sendable at once. The flush follows these records."""
        flush = Flush()
        cover(flush, self.live)
        self.send_all_now(now)
        return flush

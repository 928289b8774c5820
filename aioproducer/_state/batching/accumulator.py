"""The accumulator: the open batch of each partition, and the partitions that are ready to be sent.

Events go in with `now`, and their effects come out in `Effects`: brokers with work, the next alarm, batches to compress, room.
Nothing scans all partitions: ready queues and deadlines find the work. The parts have files of their own: the queues of the
cluster, the deadlines of batches, the making of batches, draining, and the choice of the sticky partition.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from aioproducer._core import BATCH_OVERHEAD, OrdinaryAccumulator, Waker, cover
from aioproducer._state.batching.batch_deadlines import PULSE, BatchDeadlines
from aioproducer._state.batching.cluster_queues import ClusterQueues
from aioproducer._state.batching.compression_ratio import CompressionRatios
from aioproducer._state.batching.draining import Drainer
from aioproducer._state.batching.making import BatchMaker
from aioproducer._state.batching.sticky import StickyChoice
from aioproducer._state.effects import event
from aioproducer._state.queues.flush import Flush
from aioproducer._state.queues.flushing import pass_on
from aioproducer._state.queues.gapless import gap_of
from aioproducer._state.queues.partition_queue import NO_LOSS
from aioproducer.outcome import Outcome
from aioproducer.records import Resolution

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from aioproducer._core import Budget, MemoryShare
    from aioproducer._state.batching.limits import Limits
    from aioproducer._state.cluster.load_table import Random
    from aioproducer._state.cluster.reach import Reach
    from aioproducer._state.effects import Effects
    from aioproducer._state.identity.sequences import Sequences
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.gapless import Gap
    from aioproducer._state.queues.partition_queue import PartitionQueue


async def _no_connection(batch: QueuedBatch, index: int, timeout: float | None) -> Resolution:
    del batch, index, timeout
    return Resolution(Outcome.UNKNOWN, reason="the producer has no connection")


def _never(batch: QueuedBatch, index: int) -> bool:
    del batch, index
    return False


class Accumulator(OrdinaryAccumulator):
    """All queues of one producer."""

    effects: Effects
    sequences: Sequences
    live: dict[QueuedBatch, None]
    lingering: dict[PartitionQueue, None]
    deadlines: BatchDeadlines
    maker: BatchMaker

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
        super().__init__(limits, sequences, effects, PULSE)
        self.limits = limits
        self.budget = budget
        self.waker = Waker(loop)
        self.ratios = CompressionRatios()
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

    # -- batches

    @staticmethod
    def _gap_before_next(queue: PartitionQueue) -> Gap | None:
        """The open gap that the next batch of this partition is behind."""
        gap = gap_of(queue)
        if gap is not None:
            gap.is_shared = True
        return gap

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
        self._look_at_all(now)

    # -- draining

    @event
    def shut(self, batch: QueuedBatch, now: float) -> None:
        """The open batch takes no more records, and leaves as it is."""
        self.detach(batch.queue, batch)
        self.close(batch)
        self.update_readiness(batch.queue, now)

    # -- leaving

    def replace(self, batch: QueuedBatch, replacements: Sequence[QueuedBatch]) -> None:
        """Drop a batch whose records are in these replacements: they hold its memory from now on."""
        charged = batch.charged
        for replacement in replacements:
            replacement.charged = min(replacement.size, charged)
            charged -= replacement.charged
        batch.charged = charged
        self.retire(batch)
        pass_on(batch, replacements)

    @event
    def send_all_now(self, now: float) -> None:
        """Make everything that is buffered sendable at once."""
        self._end_all_lingers()
        self._look_at_all(now)

    @event
    def flush(self, now: float) -> Flush:
        """Make everything that is buffered sendable at once. The flush follows these records."""
        flush = Flush()
        cover(flush, self.live)
        self.send_all_now(now)
        return flush

"""Makes batches: the next one of a partition, and replacements that take over records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aioproducer._core import BATCH_OVERHEAD
from aioproducer._state.queues.batches import QueuedBatch

if TYPE_CHECKING:
    from aioproducer._core import Waker
    from aioproducer._state.batching.batch_deadlines import BatchDeadlines
    from aioproducer._state.batching.compression_ratio import CompressionRatios
    from aioproducer._state.batching.limits import Limits
    from aioproducer._state.queues.gapless import Gap
    from aioproducer._state.queues.partition_queue import PartitionQueue


class BatchMaker:
    """Each batch gets its size limit, its number and its times here."""

    def __init__(
        self,
        limits: Limits,
        ratios: CompressionRatios,
        deadlines: BatchDeadlines,
        waker: Waker,
        loop: Any,
        unseen_log: list[Any] | None,
    ) -> None:
        self.limits = limits
        self.ratios = ratios
        self._deadlines = deadlines
        # The number of batches that were opened.
        self.opened = 0
        # Python 3.14 raises SystemError in place of MemoryError from a call with more than ten arguments: these are passed
        # as one mapping.
        self._of_all_batches: dict[str, Any] = {
            "max_age": max(limits.linger, limits.max_age),
            "delivery_timeout": limits.delivery_timeout,
            "loop": loop,
            "waker": waker,
            "unseen_log": [] if unseen_log is None else unseen_log,
        }

    def new(
        self, queue: PartitionQueue, now: float, *, expected: int, awaited: bool, gap: Gap | None
    ) -> QueuedBatch:
        """The next batch of a partition."""
        limit = self.ratios.plain_limit(
            queue.topic.name, self.limits.codec, self.limits.batch_size, BATCH_OVERHEAD
        )
        # Behind a gap each record has a batch of its own: the loss may be noticed before the next record is sent.
        batch = self._make(queue, 1 if gap else limit, now, expected=0 if gap else expected, awaited=awaited)
        batch.gap = batch.read_mark = gap
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
        replacement.last_error = batch.last_error
        replacement.gap, replacement.read_mark = batch.gap, batch.read_mark
        replacement.linger_at, replacement.urgent = batch.linger_at, True
        replacement.drained_at, replacement.written_at, replacement.answered_at = (
            batch.drained_at,
            batch.written_at,
            batch.answered_at,
        )
        self._deadlines.live[replacement] = None
        self._deadlines.replacements[replacement] = None
        return replacement

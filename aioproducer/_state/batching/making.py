"""Makes batches: the next one of a partition, and replacements that take over records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aioproducer._core import BatchSettings, OrdinaryMaker
from aioproducer._state.queues.batches import QueuedBatch

if TYPE_CHECKING:
    from aioproducer._core import Waker
    from aioproducer._state.batching.batch_deadlines import BatchDeadlines
    from aioproducer._state.batching.compression_ratio import CompressionRatios
    from aioproducer._state.batching.limits import Limits


class BatchMaker(OrdinaryMaker):
    """Each batch gets its size limit, its number and its times here."""

    limits: Limits
    ratios: CompressionRatios

    def __init__(
        self,
        limits: Limits,
        ratios: CompressionRatios,
        deadlines: BatchDeadlines,
        waker: Waker,
        loop: Any,
        unseen_log: list[Any] | None,
    ) -> None:
        settings = BatchSettings(
            loop,
            max_age=max(limits.linger, limits.max_age),
            delivery_timeout=limits.delivery_timeout,
            waker=waker,
            unseen_log=[] if unseen_log is None else unseen_log,
        )
        super().__init__(QueuedBatch, limits, ratios, settings)
        self._deadlines = deadlines

    def replacement(self, batch: QueuedBatch, number: int) -> QueuedBatch:
        """A new batch for records that were in `batch`: it takes over its place, its time and its watchers."""
        replacement = QueuedBatch(
            batch.topic,
            batch.partition,
            1 << 30,
            self._settings,
            batch.opened_at,
            batch.queue,
            batch.share,
            self.limits.linger_awaited,
        )
        replacement.begin((*batch.order, number), batch.linger_at, batch.gap)
        replacement.read_mark = batch.read_mark
        replacement.attempts, replacement.dirty = batch.attempts, batch.dirty
        replacement.sent_to = batch.sent_to
        replacement.anchor_offset = batch.anchor_offset
        replacement.anchor_identity = batch.anchor_identity
        replacement.anchor_sequence = batch.anchor_sequence
        replacement.last_error = batch.last_error
        replacement.urgent = True
        replacement.drained_at, replacement.written_at, replacement.answered_at = (
            batch.drained_at,
            batch.written_at,
            batch.answered_at,
        )
        self._deadlines.live[replacement] = None
        self._deadlines.replacements[replacement] = None
        return replacement

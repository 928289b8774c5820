"""Makes batches: the next one of a partition, and replacements that take over records."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from aioproducer._core import BATCH_OVERHEAD, BatchSettings
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
        self._settings = BatchSettings(
            loop,
            max_age=max(limits.linger, limits.max_age),
            delivery_timeout=limits.delivery_timeout,
            waker=waker,
            unseen_log=[] if unseen_log is None else unseen_log,
        )

    def new(
        self, queue: PartitionQueue, now: float, expected: int, awaited: bool, gap: Gap | None
    ) -> QueuedBatch:
        """The next batch of a partition."""
        topic, limits = queue.topic.name, self.limits
        limit = limits.batch_size
        if limits.codec:
            limit = self.ratios.plain_limit(topic, limits.codec, limit, BATCH_OVERHEAD)
        if gap is not None:
            # Behind a gap each record has a batch of its own: the loss may be noticed before the next record is sent.
            limit, expected = 1, 0
        # A first record that is awaited waits for no others, unless the setting says so. Not `now`: the clock of an event loop
        # may be behind, as that of uvloop, which counts milliseconds and stands still during a turn.
        linger_at = -math.inf if awaited and not limits.linger_awaited else now + limits.linger
        awaited = awaited or limits.linger_awaited
        batch = QueuedBatch(
            topic, queue.index, limit, self._settings, now, queue, queue.share, awaited, expected
        )
        self.opened += 1
        batch.begin((self.opened,), linger_at, gap)
        return batch

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
        replacement.anchor = batch.anchor
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

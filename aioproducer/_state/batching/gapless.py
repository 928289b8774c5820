"""Gapless mode: after a loss, later records of the partition are not written until a caller has seen the loss.

A relay of an ordered history (an outbox, a change log) must rather write nothing than omit a record. So a loss opens a
*gap* in its partition: all records that were buffered behind it fail, and so do all that are sent before a caller has
read one of the failures. Batches in flight go on: a broker accepts them only if the earlier ones are in its log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer.errors import DeliveryError

if TYPE_CHECKING:
    from aioproducer._state.batching.batches import QueuedBatch
    from aioproducer._state.batching.queues import PartitionQueue
    from aioproducer.errors import KafkaError


class Gap:
    """A loss in one partition, and the batches that failed because of it."""

    __slots__ = ("batches", "cause", "failure", "opened_at", "seen")

    def __init__(self, cause: KafkaError, opened_at: float, failure: int = 0) -> None:
        self.cause = cause
        self.opened_at = opened_at
        # The number of the failure that the loss is.
        self.failure = failure
        self.batches: list[QueuedBatch] = []
        self.seen = False

    @property
    def open(self) -> bool:
        """True until a caller has seen the loss."""
        return not (self.seen or any(batch.noticed for batch in self.batches))

    def error(self, batch: QueuedBatch, now: float) -> DeliveryError:
        """The error of the records behind it."""
        return DeliveryError(
            "not written, because an earlier record was lost (gapless=True): read the failed deliveries or call flush(), "
            "then send again from the first failed record on",
            cause=self.cause,
            retriable=True,
            **batch.facts(now),
        )


def gap_of(queue: PartitionQueue) -> Gap | None:
    """The gap that is open in this partition; a gap that was seen is closed by this call."""
    gap = queue.gap
    if gap is None or gap.open:
        return gap
    gap.seen = True
    gap.batches.clear()
    return None

"""Gapless mode: after a record of a partition is lost, what was sent behind it is not written, until somebody has looked.

Whoever relays an ordered history (an outbox, a change log) would rather write nothing than leave one record out. So a
loss opens a *gap* in its partition: all that was buffered behind it fails, and so does all that is sent before somebody
has looked at one of the failures. What was in flight is let be: a broker takes it only if what went before is there.
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
        """True until somebody was told."""
        return not (self.seen or any(batch.noticed for batch in self.batches))

    def error(self, batch: QueuedBatch, now: float) -> DeliveryError:
        """What is told of records behind it."""
        return DeliveryError(
            "not written, because an earlier record was lost (gapless=True): read the failed deliveries or call flush(), "
            "then send again from the first failed record on",
            cause=self.cause,
            retriable=True,
            **batch.facts(now),
        )


def gap_of(queue: PartitionQueue) -> Gap | None:
    """The gap that is open in this partition; one that somebody has looked at is closed by this."""
    gap = queue.gap
    if gap is None or gap.open:
        return gap
    gap.seen = True
    gap.batches.clear()
    return None

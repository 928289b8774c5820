"""Gapless mode: after the loss of a record, later records of its partition are not written until the loss is noticed.

A program that relays an ordered history (an outbox, a change log) prefers to write nothing rather than leave one record out. A
loss therefore opens a *gap* in its partition: the records that are buffered behind it fail, and so do all records that are sent
before the program has read one of these failures. Batches in flight are not stopped: a broker accepts them only if their
predecessors are in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._core import ReadMark
from aioproducer.errors import DeliveryError

if TYPE_CHECKING:
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.partition_queue import PartitionQueue
    from aioproducer.errors import KafkaError


class Gap(ReadMark):
    """A loss in one partition. It is the mark of the batches that fail because of it: reading one of their failures closes it."""

    __slots__ = ("cause", "failure", "is_shared", "opened_at")

    def __init__(self, cause: KafkaError, opened_at: float, failure: int = 0) -> None:
        self.cause = cause
        self.opened_at = opened_at
        # The number of the failure that the loss is.
        self.failure = failure
        # Other records were lost with the first one, or may be.
        self.is_shared = False

    @property
    def open(self) -> bool:
        """True until the program has read one of the failures."""
        return not self.seen

    def error(self, batch: QueuedBatch, now: float) -> DeliveryError:
        """The error of records behind it."""
        self.is_shared = True
        return DeliveryError(
            "not written, because an earlier record was lost (gapless=True): read the failed deliveries or call flush(), "
            "then send again from the first failed record on",
            cause=self.cause,
            retriable=True,
            **batch.facts(now),
        )


def gap_of(queue: PartitionQueue) -> Gap | None:
    """The open gap of this partition."""
    gap = queue.gap
    return gap if gap is not None and gap.open else None

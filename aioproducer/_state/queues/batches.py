"""One batch, with the facts about its attempts that decide its next step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypedDict

from aioproducer._core import Batch, BatchState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aioproducer._core import Covered
    from aioproducer._state.queues.gapless import Gap
    from aioproducer._state.queues.partition_queue import PartitionQueue
    from aioproducer.errors import KafkaError

SEQUENCE_MODULUS = 1 << 31
NO_OFFSET = -1


class BatchFacts(TypedDict):
    """The facts of a batch in the error of its record."""

    topic: str
    partition: int
    attempts: int
    elapsed: float


class Anchor(NamedTuple):
    """The last record of the newest batch that was acknowledged with an offset: later batches come behind it."""

    offset: int
    identity: tuple[int, int] | None
    sequence: int


class PartitionAnswer(NamedTuple):
    """A broker's answer for one batch."""

    code: int
    base_offset: int = -1
    log_append_time: int = -1
    message: str | None = None
    record_errors: tuple[tuple[int, str | None], ...] = ()
    broker: str | int | None = None


class QueuedBatch(BatchState):
    """A batch in the care of its partition's queue, from the first record to the last outcome.

    *Clean*: every attempt so far was answered by an error that proves that nothing was appended. *Dirty*: an attempt
    went unanswered, or was answered ambiguously. A dirty batch keeps its identity and its bytes to the end, and its
    sequence numbers are never given to other records.
    """

    # The queue of the batch: the `owner` of the core under another name, without a call.
    queue: PartitionQueue = Batch.owner

    __slots__ = ()

    gap: Gap | None
    last_error: KafkaError | None
    flushes: Sequence[Covered]

    def facts(self, now: float) -> BatchFacts:
        """The facts for the error of one of its records, now."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "attempts": self.attempts,
            "elapsed": now - self.opened_at,
        }

    @property
    def anchor(self) -> Anchor | None:
        """The record that was acknowledged last when the first attempt was made."""
        if self.anchor_offset == NO_OFFSET:
            return None
        return Anchor(self.anchor_offset, self.anchor_identity, self.anchor_sequence)

    @property
    def next_sequence(self) -> int:
        """The sequence number after this batch's last record; they wrap from 2**31 - 1 to 0."""
        return (self.sequence + self.record_count) % SEQUENCE_MODULUS

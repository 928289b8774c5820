"""The search for one batch in the log of its partition: found, proven absent now and later, or neither.

A batch is found by its numbers: a leader writes a sequence number of a producer id and epoch once, and this producer
never gives the numbers of a batch in doubt to other records.

Absence is proven by two facts together. Every batch of the log from the last acknowledged one on was seen, without a
hole, up to the high watermark. And among them is a batch of this producer behind which the leader can no longer take
the numbers in question: a later number of the epoch, or a later epoch. A request that still is on its way at a slow
broker is refused then. A leader forgets a producer whose newest batch has a timestamp of more than a day ago, so that
the newest batch must be fresh. One leader is read, in one leader epoch: an unclean election replaces the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from aioproducer._state.queues.batches import SEQUENCE_MODULUS
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aioproducer._state.queues.batches import Anchor
    from aioproducer._wire.heads import BatchHead

# producer.id.expiration.ms is a day by default, and counts from the timestamp of the batch that was written last.
FRESH_MS: Final = 3_600_000

NOTHING_LATER: Final = "the record is not in the log, and no later record of this producer is, so that a request may still be on its way"
STALE: Final = (
    "the record is not in the log, but the last record of this producer has a timestamp of more than an hour ago: the leader "
    "may have forgotten the producer, and take a request that is still on its way"
)
NOT_FROM_HERE: Final = (
    "the record was not found, but the log was not read from a place that is certainly before it"
)
HOLE: Final = "the record was not found, but the log has holes where it may have been (compaction)"
OLD_FORMAT: Final = "the record was not found, but the log has batches without the numbers of their producer"
NO_ANCHOR: Final = "the record was not found, but the last acknowledged record before it is not at its offset: records were deleted or lost"
OTHER_TOPIC: Final = "the topic was deleted and created again, and the record may be in the former topic"
NAMED_ONLY: Final = "the record was not found, but this broker cannot say whether the topic is still the same one (Fetch v13, Kafka 3.1)"
UNREAD: Final = "the log was not read to its end in time"


class Wanted(NamedTuple):
    """The numbers of a batch, and the record before it that was acknowledged last."""

    producer_id: int
    epoch: int
    sequence: int
    anchor: Anchor | None


class Verdict(NamedTuple):
    """The outcome of the batch; the offset is that of its first record."""

    outcome: Outcome
    offset: int = -1
    reason: str = ""


class Search:
    """Reads the log onward from one offset; `doubt` is the reason why the absence of the batch cannot be proven."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.found = -1
        # The offset to read next; None: not known yet.
        self.position: int | None = None if wanted.anchor is None else wanted.anchor.offset
        self.doubt = ""
        self.is_at_the_end = False
        self._has_begun = False
        # Among the batches is one that keeps the leader from taking the wanted one.
        self._is_fenced = False
        # The timestamp of the newest batch of this producer.
        self._newest_at = -1

    def begin(self, offset: int, *, whole: bool) -> None:
        """Read from this offset on; `whole`: the batch cannot be before it."""
        self.position = offset
        self._has_begun = True
        if not whole:
            self.cannot_prove_absence(NOT_FROM_HERE)

    def cannot_prove_absence(self, reason: str) -> None:
        """The batch may still be found. The verdict has the first reason."""
        self.doubt = self.doubt or reason

    def read(self, heads: Iterable[BatchHead | None], high_watermark: int) -> None:
        """The next batches of the log, and its end for readers."""
        assert self.position is not None  # noqa: S101  # asked for from there
        for head in heads:
            if head is None:
                self.cannot_prove_absence(OLD_FORMAT)
                self.position += 1
                break
            self._one(head)
        self.is_at_the_end = self._has_begun and self.position >= high_watermark

    def _one(self, head: BatchHead) -> None:
        position = self.position
        assert position is not None  # noqa: S101  # see read()
        if head.last_offset < position:
            return
        if not self._has_begun and not self._is_the_anchor(head):
            self.cannot_prove_absence(NO_ANCHOR)
        if head.first_offset > position:
            self.cannot_prove_absence(HOLE)
        self._has_begun = True
        self.position = head.last_offset + 1
        if head.producer_id == self.wanted.producer_id:
            self._compare(head)

    def _is_the_anchor(self, head: BatchHead) -> bool:
        anchor = self.wanted.anchor
        assert anchor is not None  # noqa: S101  # begin() was called otherwise
        behind = (anchor.sequence - head.sequence) % SEQUENCE_MODULUS
        return (
            (head.producer_id, head.epoch) == anchor.identity
            and not head.is_control
            and head.first_offset + behind == anchor.offset
        )

    def _compare(self, head: BatchHead) -> None:
        self._newest_at = head.max_timestamp
        if head.epoch > self.wanted.epoch:
            self._is_fenced = True
        if head.epoch != self.wanted.epoch or head.is_control or head.sequence < 0:
            return
        behind = (self.wanted.sequence - head.sequence) % SEQUENCE_MODULUS
        if behind <= head.last_offset - head.first_offset:
            self.found = head.first_offset + behind
        elif behind > SEQUENCE_MODULUS // 2:
            self._is_fenced = True

    def verdict(self, now_ms: int) -> Verdict:
        """The outcome, as far as the log was read."""
        if self.found >= 0:
            return Verdict(Outcome.ACKED, self.found)
        if not self.is_at_the_end:
            return Verdict(Outcome.UNKNOWN, reason=UNREAD)
        doubt = self.doubt or self._missing_fence(now_ms)
        if doubt:
            return Verdict(Outcome.UNKNOWN, reason=doubt)
        return Verdict(Outcome.NOT_WRITTEN)

    def _missing_fence(self, now_ms: int) -> str:
        if not self._is_fenced:
            return NOTHING_LATER
        return STALE if self._newest_at < now_ms - FRESH_MS else ""

"""The transactions of a log: open ones, aborted ones, and the last stable offset.

The rules are those of Kafka's `ProducerStateManager` and its index of aborted transactions.
"""

from __future__ import annotations

from bisect import bisect_left

import attrs


@attrs.frozen
class OpenTransaction:
    """A producer's transaction with records here and without a marker."""

    epoch: int
    first_offset: int


@attrs.frozen
class AbortedTransaction:
    """Records that are hidden from readers of committed records."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""


@attrs.define
class Attempt:
    """The attempts of a producer to begin a transaction in this partition, until one succeeds.

    Kafka's `VerificationStateEntry`: the batch with the lowest sequence goes first, so that no batch overtakes a
    refused one that is sent again.
    """

    epoch: int
    lowest: int
    from_zero: bool
    """An unknown producer must begin with 0 (since Produce 12)."""

    def repeat(self, epoch: int, sequence: int) -> None:
        """Another attempt."""
        if epoch > self.epoch:
            self.epoch, self.lowest = epoch, sequence
        elif epoch == self.epoch:
            self.lowest = min(self.lowest, sequence)

    def allows(self, sequence: int, *, remembered: bool) -> bool:
        """Whether a batch with this sequence may be the first."""
        return sequence <= self.lowest and (remembered or not self.from_zero or sequence == 0)


@attrs.define
class LogTransactions:
    """The transactions of one partition's log."""

    # By producer id, in the order of their first offsets.
    _open: dict[int, OpenTransaction] = attrs.field(factory=dict, init=False)
    # In the order of their markers, also for each producer.
    _aborted: list[AbortedTransaction] = attrs.field(factory=list, init=False)
    _aborted_of: dict[int, list[AbortedTransaction]] = attrs.field(factory=dict, init=False)
    _attempts: dict[int, Attempt] = attrs.field(factory=dict, init=False)

    def __contains__(self, producer_id: object) -> bool:
        """Whether this producer has an open transaction here."""
        return producer_id in self._open

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Whether it has one under this epoch."""
        known = self._open.get(producer_id)
        return known is not None and known.epoch == epoch

    def attempt(self, producer_id: int, epoch: int, sequence: int, *, from_zero: bool) -> None:
        """A producer attempts to begin here."""
        known = self._attempts.setdefault(producer_id, Attempt(epoch, sequence, from_zero))
        known.repeat(epoch, sequence)

    def allows(self, producer_id: int, sequence: int, *, remembered: bool) -> bool:
        """Whether this may be its next batch."""
        known = self._attempts.get(producer_id)
        return known is None or known.allows(sequence, remembered=remembered)

    def wrote(self, producer_id: int, epoch: int, offset: int) -> None:
        """A transactional batch was appended; the first one opens the transaction."""
        self._attempts.pop(producer_id, None)
        known = self._open.get(producer_id)
        first = offset if known is None else known.first_offset
        self._open[producer_id] = OpenTransaction(epoch, first)

    def ended(self, producer_id: int, marker_offset: int, *, commit: bool) -> None:
        """Its marker was appended; a transaction without records hides nothing."""
        self._attempts.pop(producer_id, None)
        known = self._open.pop(producer_id, None)
        if known is not None and not commit:
            aborted = AbortedTransaction(producer_id, known.first_offset, marker_offset)
            self._aborted.append(aborted)
            self._aborted_of.setdefault(producer_id, []).append(aborted)

    def stable(self, start: int, high_watermark: int) -> int:
        """The last stable offset: all transactions before it have ended."""
        first = min((one.first_offset for one in self._open.values()), default=high_watermark)
        return max(first, start)

    def aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions that reach into the offsets from `start` up to `end`."""
        ended_later = self._aborted[bisect_left(self._aborted, start, key=_end_of) :]
        return [one for one in ended_later if one.first_offset < end]

    def hides(self, producer_id: int, offset: int) -> bool:
        """Whether the records of this producer at this offset were aborted."""
        known = self._aborted_of.get(producer_id, ())
        at = bisect_left(known, offset, key=_end_of)
        return at < len(known) and known[at].first_offset <= offset

    def forget(self) -> None:
        """Forget everything."""
        for known in (self._open, self._aborted, self._aborted_of, self._attempts):
            known.clear()

    def forget_before(self, offset: int) -> None:
        """Forget transactions that ended before an offset."""
        for known in (self._aborted, *self._aborted_of.values()):
            del known[: bisect_left(known, offset, key=_end_of)]


def _end_of(aborted: AbortedTransaction) -> int:
    return aborted.last_offset

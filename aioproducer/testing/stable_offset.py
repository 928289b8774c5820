"""What a log knows of transactions: which are open, which were aborted, and up to where readers of committed records go.

The rules are those of Kafka's `ProducerStateManager` and its index of aborted transactions.
"""

from __future__ import annotations

from typing import Final

import attrs

NO_OFFSET: Final = -1


@attrs.frozen
class OpenTransaction:
    """A producer's transaction that has records here and no marker."""

    epoch: int
    first_offset: int


@attrs.frozen
class AbortedTransaction:
    """Records that no reader of committed ones is to see."""

    producer_id: int
    first_offset: int
    last_offset: int
    """That of the marker."""

    def holds(self, producer_id: int, offset: int) -> bool:
        """Is what this producer wrote at an offset part of it?"""
        return self.producer_id == producer_id and self.first_offset <= offset <= self.last_offset


@attrs.define
class LogTransactions:
    """The transactions of one partition's log."""

    # By producer id, in the order of their first offsets.
    _open: dict[int, OpenTransaction] = attrs.field(factory=dict, init=False)
    _aborted: list[AbortedTransaction] = attrs.field(factory=list, init=False)

    def __contains__(self, producer_id: object) -> bool:
        """Has this producer an open transaction here?"""
        return producer_id in self._open

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Has it one under this epoch?"""
        known = self._open.get(producer_id)
        return known is not None and known.epoch == epoch

    def wrote(self, producer_id: int, epoch: int, offset: int) -> None:
        """A transactional batch was appended; the first one opens the transaction."""
        known = self._open.get(producer_id)
        first = offset if known is None else known.first_offset
        self._open[producer_id] = OpenTransaction(epoch, first)

    def ended(self, producer_id: int, marker_offset: int, *, commit: bool) -> None:
        """Its marker was appended; one without records has nothing to hide."""
        known = self._open.pop(producer_id, None)
        if known is not None and not commit:
            self._aborted.append(AbortedTransaction(producer_id, known.first_offset, marker_offset))

    def stable(self, start: int, high_watermark: int) -> int:
        """The last stable offset: what is before it is decided."""
        first = min((one.first_offset for one in self._open.values()), default=high_watermark)
        return max(first, start)

    def aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions that reach into the offsets from `start` up to `end`."""
        return [one for one in self._aborted if one.last_offset >= start and one.first_offset < end]

    def hides(self, producer_id: int, offset: int) -> bool:
        """Was what this producer wrote there aborted?"""
        return any(one.holds(producer_id, offset) for one in self._aborted)

    def forget(self, before: int | None = None) -> None:
        """What ended before an offset matters no more; None: all of it."""
        if before is None:
            self._open.clear()
            self._aborted.clear()
        else:
            self._aborted[:] = [one for one in self._aborted if one.last_offset >= before]

"""How the transactions of a producer ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.buckets import Buckets
from aioproducer.errors import CommitOutcomeUnknownError
from aioproducer.stats import SECONDS_BOUNDS, TransactionStats

if TYPE_CHECKING:
    from aioproducer.errors import KafkaError


class TransactionCounts:
    """Counters of the ends of transactions, and the times of commits."""

    def __init__(self) -> None:
        self.committed = 0
        self.aborted = 0
        self.unknown = 0
        self.commit_time = Buckets(SECONDS_BOUNDS)
        # The newest transaction whose outcome was unknown: it is counted once, however many calls learn of it.
        self._in_doubt = 0

    def commit_ended(self, number: int, error: KafkaError | None, seconds: float) -> None:
        """The commit of the transaction with this number has a result."""
        if error is None:
            self.committed += 1
            self.commit_time.add(seconds)
        elif isinstance(error, CommitOutcomeUnknownError):
            self.in_doubt(number)

    def abort_ended(self, error: KafkaError | None) -> None:
        """An abort has a result."""
        self.aborted += error is None

    def in_doubt(self, number: int) -> None:
        """A caller learned that the outcome of the commit is unknown."""
        if number != self._in_doubt:
            self._in_doubt = number
            self.unknown += 1

    def begin_again(self) -> None:
        """The producer is started again, and numbers its transactions anew."""
        self._in_doubt = 0

    def snapshot(self) -> TransactionStats:
        """The counters of this moment. For any thread."""
        return TransactionStats(self.committed, self.aborted, self.unknown, self.commit_time.snapshot())

"""The records of a flush: those that were accepted before it, in each batch up to some index."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aioproducer._callers.owners import NOTHING
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from aioproducer._callers.owners import Told
    from aioproducer.errors import KafkaError

FIRST_ERRORS = 10


class Failure(NamedTuple):
    """Records failed together, with this error; failures are numbered from 1."""

    number: int
    error: KafkaError


class Flush:
    """One `flush()`: the number of records that it waits for, and the outcomes of those that ended meanwhile.

    A batch stays open for records that come later, or each of many flushes would leave a batch of its own behind.
    """

    __slots__ = ("acked", "began", "error", "errors", "failures", "not_written", "unknown", "waiting")

    def __init__(self) -> None:
        # The counts of the records that had their outcomes before.
        self.began: Told = NOTHING
        self.waiting = 0
        # The process had no memory to follow one of its records, so that its end cannot be noticed.
        self.error: BaseException | None = None
        self.acked = 0
        self.not_written = 0
        self.unknown = 0
        # The first errors, and the numbers of all failures: true for those that concern nothing that came later.
        self.errors: list[KafkaError] = []
        self.failures: dict[int, bool] = {}

    @property
    def done(self) -> bool:
        """True when everything that it waits for has its outcome."""
        return self.waiting == 0

    def failed(self, failure: Failure, records: int, *, wholly: bool) -> None:
        """So many records of it failed; `wholly`: and no others did by the same failure."""
        if failure.error.outcome is Outcome.UNKNOWN:
            self.unknown += records
        else:
            self.not_written += records
        self.failures[failure.number] = wholly
        if len(self.errors) < FIRST_ERRORS:
            self.errors.append(failure.error)

    def knows_of(self, failure: int) -> bool:
        """Whether its report has the failure with this number."""
        return failure <= self.began.failures or failure in self.failures


class Covered:
    """The part of a batch that a flush waits for: the records from `first` to before `until`, `left` of them pending."""

    __slots__ = ("first", "flush", "left", "until")

    def __init__(self, flush: Flush, first: int, until: int, left: int) -> None:
        self.flush = flush
        self.first = first
        self.until = until
        self.left = left
        flush.waiting += 1

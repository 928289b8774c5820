"""The records of a flush: those that were accepted before it, in each batch up to some index."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aioproducer._callers.owners import NO_PART, NOTHING, Part
from aioproducer._core import FlushState
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from aioproducer._callers.owners import Told
    from aioproducer.errors import KafkaError

FIRST_ERRORS = 10


class Failure(NamedTuple):
    """So many records failed together, with this error; failures are numbered from 1."""

    number: int
    error: KafkaError
    records: int


class Flush(FlushState):
    """One `flush()`: the number of records that it waits for, and the outcomes of those that ended meanwhile.

    A batch stays open for records that come later, or each of many flushes would leave a batch of its own behind.
    """

    __slots__ = ("began", "error", "errors", "failures", "not_written", "unknown")

    def __init__(self) -> None:
        # The counts of the records that had their outcomes before.
        self.began: Told = NOTHING
        # The process had no memory to follow one of its records, so that its end cannot be noticed.
        self.error: BaseException | None = None
        self.not_written = 0
        self.unknown = 0
        # The first failures, and the records of each failure, by its number.
        self.errors: list[Failure] = []
        self.failures: dict[int, Part] = {}

    @property
    def done(self) -> bool:
        """True when everything that it waits for has its outcome."""
        return self.waiting == 0

    def failed(self, failure: Failure, records: int) -> None:
        """So many records of it failed."""
        if failure.error.outcome is Outcome.UNKNOWN:
            self.unknown += records
        else:
            self.not_written += records
        if failure.number not in self.failures and len(self.errors) < FIRST_ERRORS:
            self.errors.append(failure)
        records += self.failures.get(failure.number, NO_PART).records
        self.failures[failure.number] = Part(records, is_whole=records == failure.records)

    def knows_of(self, failure: int) -> bool:
        """Whether its report has the failure with this number."""
        return failure <= self.began.failures or failure in self.failures

    def records_of(self, failure: Failure, told: Told) -> int:
        """The number of records of a failure that its report has and that were not reported before."""
        number = failure.number
        if number <= told.failures:
            return 0
        is_before = number <= self.began.failures
        known = failure.records if is_before else self.failures.get(number, NO_PART).records
        return max(0, known - told.ahead.get(number, NO_PART).records)

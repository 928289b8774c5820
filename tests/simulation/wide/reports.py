"""Reports of flushes and of closing, against the outcomes of the records that they count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import attrs

from aioproducer import Outcome, Producer
from aioproducer.records import CloseReport, FlushReport
from tests.judge.history import Sent, counts
from tests.simulation.ledger import Ledger

OUTCOMES: Final = (Outcome.ACKED, Outcome.NOT_WRITTEN, Outcome.UNKNOWN)


class Counts(NamedTuple):
    """The number of records of each outcome."""

    acked: int = 0
    not_written: int = 0
    unknown: int = 0

    def plus(self, other: Counts) -> Counts:
        """The sums."""
        return Counts(*(one + more for one, more in zip(self, other, strict=True)))


@attrs.define(eq=False)
class Owner:
    """An owner of reports: the outcomes reported so far, with those from before its first report."""

    reported: Counts | None = None
    newest: int = -1
    """The number of its last reported flush, in the order in which flushes began."""


@attrs.frozen
class Claim:
    """A report of so many outcomes of these records, and of any of those that were perhaps accepted then."""

    who: str
    reported: Counts
    sure: frozenset[int]
    perhaps: frozenset[int]

    def broken(self, history: dict[int, Sent], accepted: frozenset[int]) -> Iterable[str]:
        """The difference between the report and the outcomes of the records."""
        least = counts(history[number] for number in self.sure)
        more = counts(history[number] for number in self.perhaps & accepted)
        for outcome, count in zip(OUTCOMES, self.reported, strict=True):
            if not least[outcome] <= count <= least[outcome] + more[outcome]:
                yield (
                    f"{self.who} reports {count} records that are {outcome.value}, "
                    f"not {least[outcome]} to {least[outcome] + more[outcome]}"
                )


@attrs.define(eq=False)
class Reports:
    """All reports of a life."""

    ledger: Ledger
    producer: Producer[Any, Any]
    claims: list[Claim] = attrs.Factory(list)
    broken: list[str] = attrs.Factory(list)
    _flushes: int = 0

    def now(self) -> Counts:
        """The outcomes so far, as the producer counts them."""
        engine = self.producer._engine
        assert engine is not None
        totals = engine.tally.totals
        return Counts(totals.acked, totals.not_written, totals.unknown)

    def begin(self, owner: Owner) -> None:
        """The reports of a task begin here, with its first record."""
        # A closing producer refuses a record before it looks up the record's owner.
        if owner.reported is None and self.producer.health().state == "running":
            owner.reported = self.now()

    async def flush(self, who: str, owner: Owner, flushing: Any, timeout: float | None) -> None:
        """One flush, whose report is to be proven."""
        number = self._flushes
        self._flushes += 1
        # A task that has not sent gets all outcomes, also by a later report if this one does not come.
        owner.reported = owner.reported or Counts()
        sure, perhaps = self._present(pending=False)
        try:
            report: FlushReport = await flushing(timeout)
        except TimeoutError:
            return
        counted = Counts(report.acked, report.not_written, report.unknown)
        if number < owner.newest:
            if any(counted):
                self.broken.append(f"{who} got a second report of {counted}")
            return
        owner.newest = number
        owner.reported = owner.reported.plus(counted)
        self.claims.append(Claim(who, owner.reported, sure, perhaps))
        lost = report.not_written + report.unknown
        if bool(report.first_errors or report.first_errors_dropped) != bool(lost):
            self.broken.append(f"{who} got {lost} losses and {len(report.first_errors)} errors")

    async def close(self, timeout: float | None) -> None:
        """`close()`, whose report is to be proven."""
        sure, perhaps = self._present(pending=True)
        report: CloseReport = await self.producer.close(timeout)
        counted = Counts(report.delivered, report.not_written, report.unknown)
        self.claims.append(Claim("close()", counted, sure, perhaps))

    def _present(self, *, pending: bool) -> tuple[frozenset[int], frozenset[int]]:
        """The records that are accepted by now (those without an outcome, or all), and those of running calls."""
        entries = self.ledger.entries
        sure = (entry.number for entry in entries if entry.accepted and (entry.waits if pending else True))
        perhaps = (entry.number for entry in entries if not entry.accepted and not entry.refused)
        return frozenset(sure), frozenset(perhaps)

    def verdict(self, history: Sequence[Sent]) -> list[str]:
        """Every false report."""
        sent = {record.number: record for record in history}
        accepted = frozenset(entry.number for entry in self.ledger.entries if entry.accepted)
        self.claims.append(Claim("stats()", self.now(), accepted, frozenset()))
        found = [line for claim in self.claims for line in claim.broken(sent, accepted)]
        return [*self.broken, *found]

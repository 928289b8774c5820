"""The checks of an examination while it runs: it can be reported at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from aioproducer._state.diagnosing.finding import Finding
from aioproducer.doctor.report import IDS, Check, Report

__all__ = ["Record"]


# A cluster may work without them.
_MAY_BE_MISSING = frozenset({"clock", "telemetry"})


def _out_of_time(kind: str) -> Finding:
    text = "no answer within the time of this step"
    if kind in _MAY_BE_MISSING:
        return Finding.skip(text)
    return Finding.fail(
        text, "Examine again with a longer --timeout: the brokers or the network answer slowly."
    )


class Record:
    """Takes findings, and gives the report of those that are there."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._checks: list[Check] = []
        self._expected: set[tuple[str, str | None]] = set()
        # In the order in which they were first named: that of their ends is by chance.
        self._order: dict[tuple[str, str | None], int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._began = 0.0
        self._ended: float | None = None

    def begin(self) -> None:
        """The examination begins."""
        self._loop = asyncio.get_running_loop()
        self._began = self.now()

    def end(self) -> None:
        """The examination is over."""
        self._ended = self.now()

    def now(self) -> float:
        """The time of the event loop; 0 before the beginning."""
        return 0.0 if self._loop is None else self._loop.time()

    def note(self, kind: str, target: str | None, finding: Finding, seconds: float = 0.0) -> None:
        """One more check."""
        self._expected.discard((kind, target))
        self._order.setdefault((kind, target), len(self._order))
        self._checks.append(Check.of(kind, target, finding, seconds))

    @contextmanager
    def expecting(self, *places: tuple[str, str | None]) -> Iterator[None]:
        """Checks that this block notes; those that it does not come to within its time have failed."""
        for place in places:
            self._order.setdefault(place, len(self._order))
        self._expected.update(places)
        yield
        for place in places:
            if place in self._expected:
                self.note(*place, _out_of_time(place[0]))

    def report(self) -> Report:
        """The checks that are finished; the others that were begun are skipped."""
        unfinished = [Check.of(kind, target, Finding.skip("not finished")) for kind, target in self._expected]
        checks = sorted(
            [*self._checks, *unfinished],
            key=lambda check: (IDS.index(check.id), self._order[check.id, check.target]),
        )
        until = self.now() if self._ended is None else self._ended
        return Report(tuple(checks), until - self._began, self._strict, self._ended is not None)

"""The owners of flush reports: each task, and each scope that a user opens."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Final, NamedTuple, Self

from aioproducer.errors import StateError
from aioproducer.records import FlushReport

__all__ = ["NOTHING", "NO_PART", "Owner", "Part", "Scope", "Told"]


class Part(NamedTuple):
    """The records of one failure that a report includes; `is_whole`: all of them."""

    records: int
    is_whole: bool


NO_PART: Final = Part(0, is_whole=False)


class Told(NamedTuple):
    """The state of an owner's reports: the counts and failures that they have included.

    The counts include all reported outcomes. `failures`: all failures up to this number were reported, and those in
    `ahead`, wholly or in part.
    """

    acked: int = 0
    not_written: int = 0
    unknown: int = 0
    failures: int = 0
    ahead: Mapping[int, Part] = MappingProxyType({})

    @property
    def records(self) -> int:
        """The number of these records."""
        return self.acked + self.not_written + self.unknown


# The state of an owner without a report.
NOTHING: Final = Told()


class Owner:
    """An owner of reports. By default it has received none since the start of the producer."""

    def __init__(self, told: Told | None = None) -> None:
        self.told = told or Told()


class Scope(Owner):
    """A part of a program that gets reports of its own: `async with producer.scope() as scope: ...`.

    Its reports begin where the block is entered. Any number of tasks may send in it, and flush it: each outcome is in
    one of their reports. Leaving the block ends the scope, and neither flushes nor raises.
    """

    def __init__(
        self,
        flush: Callable[[Owner, float | None, bool], Coroutine[Any, Any, FlushReport]],
        now: Callable[[], Told],
    ) -> None:
        super().__init__()
        self._flush = flush
        self._now = now
        self._state = "was not entered: use `async with producer.scope() as scope:`"

    async def __aenter__(self) -> Self:
        if self._state == "":
            raise StateError("the scope is already entered")
        self.told = self._now()
        self._state = ""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._state = "has ended: flush it inside of its block"

    async def flush(self, timeout: float | None = None, *, resolve: bool = False) -> FlushReport:
        """Wait as `Producer.flush` does; the report has the outcomes since the last one of this scope, or its begin."""
        if self._state:
            raise StateError(f"the scope {self._state}")
        return await self._flush(self, timeout, resolve)

    def __repr__(self) -> str:
        return f"<Scope: {self._state or 'open'}>"

"""When a connection's requests are overdue: one timer for all of them, fair to answers that have already arrived.

A loop that was held up finds both the answers and the timer waiting. The answers come first: before anything is judged
overdue, what the kernel has received is read.
"""

from __future__ import annotations

import asyncio
import math
from typing import Protocol

__all__ = ["Alarm", "Watched"]

# After a stall, what has already arrived is at most the kernel's receive buffer (Linux: 6 MiB by default), of which
# each turn of the loop takes 64 KiB.
_CATCH_UP_TURNS = 128


class Watched(Protocol):
    """Whose requests may be overdue."""

    closed: bool
    reads: int  # how often bytes arrived

    def earliest_deadline(self) -> float:
        """Of all requests that wait for an answer; infinite if there are none."""

    def overdue(self, now: float) -> None:
        """The earliest deadline has passed, and no more bytes are there to be read."""


class Alarm:
    """A timer that is set when requests are made and not touched by their answers: it looks again when it wakes."""

    __slots__ = ("_at", "_loop", "_timer", "_watched")

    def __init__(self, loop: asyncio.AbstractEventLoop, watched: Watched) -> None:
        self._loop = loop
        self._watched = watched
        self._timer: asyncio.TimerHandle | None = None
        self._at = math.inf

    def expect(self, deadline: float) -> None:
        """A request has this deadline."""
        if deadline < self._at:
            self._wake_at(deadline)

    def stop(self) -> None:
        """Never wake again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._at = -math.inf

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = when
        self._timer = self._loop.call_at(when, self._wake) if when < math.inf else None

    def _wake(self) -> None:
        self._timer = None
        earliest = self._watched.earliest_deadline()
        if earliest <= self._loop.time():
            self._let_arrive(_CATCH_UP_TURNS)
        else:
            self._wake_at(earliest)

    def _let_arrive(self, turns: int) -> None:
        # Two turns, because on asyncio what is called soon runs before what the selector finds in the same turn, and
        # on uvloop timers run before it looks.
        self._loop.call_soon(self._loop.call_soon, self._judge, turns, self._watched.reads)

    def _judge(self, turns: int, reads_before: int) -> None:
        watched = self._watched
        if watched.closed:
            return
        earliest, now = watched.earliest_deadline(), self._loop.time()
        if earliest > now:
            self._wake_at(earliest)
        elif turns and watched.reads != reads_before:
            self._let_arrive(turns - 1)
        else:
            watched.overdue(now)

"""Overdue requests of a connection: one timer for all of them, fair to answers that have already arrived.

A delayed loop finds both the answers and the timer waiting. The answers come first: all received bytes are read before
any request is judged overdue.
"""

from __future__ import annotations

import asyncio
import math
from typing import Protocol

__all__ = ["Alarm", "Watched"]

# After a stall, the received bytes are at most the kernel's receive buffer (Linux: 6 MiB by default); each turn of the
# loop reads 64 KiB.
_CATCH_UP_TURNS = 128


class Watched(Protocol):
    """The owner of requests that may become overdue."""

    closed: bool
    reads: int  # how often bytes arrived

    def earliest_deadline(self) -> float:
        """The first deadline of all open requests; infinite if there are none."""

    def overdue(self, now: float) -> None:
        """The earliest deadline has passed, and no more bytes can be read."""


class Alarm:
    """One timer, set when requests are made. Answers do not touch it: it looks for the next deadline when it fires."""

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
        """Never fire again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._at = -math.inf

    def _wake_at(self, when: float) -> None:
        # First: without memory for it, the former timer stays, or the next request sets one.
        timer = self._loop.call_at(when, self._wake) if when < math.inf else None
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._at = timer, when

    def _wake(self) -> None:
        # First: an exception in this callback (no memory, Ctrl-C) must not keep the next request from setting the timer.
        self._timer, self._at = None, math.inf
        earliest = self._watched.earliest_deadline()
        if earliest <= self._loop.time():
            self._let_arrive(_CATCH_UP_TURNS)
        else:
            self._wake_at(earliest)

    def _let_arrive(self, turns: int) -> None:
        # Two turns: asyncio runs scheduled calls before the events that its selector finds in the same turn, and uvloop
        # runs timers before it polls.
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

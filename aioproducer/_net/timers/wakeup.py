"""One timer and one event: a task sleeps until the earliest deadline, or until it is woken."""

from __future__ import annotations

import math
from contextvars import Context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


def wake(waiter: asyncio.Future[None]) -> None:
    """Wake the task that waits for this, unless it was destroyed with its loop."""
    if not waiter.done() and not waiter.get_loop().is_closed():
        waiter.set_result(None)


class Wakeup:
    """Wakes the one task that waits on it. Only the earliest deadline is kept."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Empty. A timer would keep the context of the call that needs it, and with it the spans of the caller.
        self._context = Context()
        self._timer: asyncio.TimerHandle | None = None
        # Kept here: for a time that is due at once, uvloop makes a handle without a time.
        self._at = math.inf
        # The earliest possible firing: a requested deadline may have passed already.
        self._possible_at = math.inf
        self._waiter: asyncio.Future[None] | None = None
        self._rung = False
        self._late = 0.0

    def by(self, deadline: float) -> None:
        """Wake the task at `deadline` at the latest."""
        if deadline < self._at:
            possible_at = max(deadline, self._loop.time())
            # First: without memory for it, the former timer stays.
            timer = self._loop.call_at(deadline, self._due, context=self._context)
            if self._at <= deadline:
                # A garbage collection meanwhile ran code that requested an earlier time.
                timer.cancel()
                return
            self.silence()
            self._timer, self._at, self._possible_at = timer, deadline, possible_at

    def _due(self) -> None:
        self._late = max(self._late, self._loop.time() - self._possible_at)
        self._timer, self._at = None, math.inf
        self.ring()

    def late_by(self) -> float:
        """The largest delay in seconds since the last call, caused by a blocked loop."""
        late, self._late = self._late, 0.0
        return late

    def ring(self) -> None:
        """Wake the task now."""
        self._rung = True
        if self._waiter is not None:
            wake(self._waiter)

    def silence(self) -> None:
        """Forget the deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._at = None, math.inf

    async def wait(self) -> None:
        """Sleep until the timer fires; returns at once when it has fired since the last wait."""
        # Made before the check: its allocation may run a garbage collection, and with it code that wakes.
        waiter = self._loop.create_future()
        if not self._rung:
            self._waiter = waiter
            try:
                await waiter
            finally:
                self._waiter = None
        self._rung = False

"""A task sleeps until the earliest deadline, or until it is woken; work that waits for nothing is done without it."""

from __future__ import annotations

import math
from contextvars import Context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


def wake(waiter: asyncio.Future[None]) -> None:
    """Wake the task that waits for this, unless it was destroyed with its loop."""
    if not waiter.done() and not waiter.get_loop().is_closed():
        waiter.set_result(None)


def _is_for_the_task() -> bool:
    return False


class Wakeup:
    """Wakes the one task that waits on it.

    When a deadline has passed while the task sleeps, `work` is called first, in the callback of the timer: True means that nothing
    is left to do, and the task sleeps on. A step of the task costs a turn of the loop.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Callable[[], bool] = _is_for_the_task,
        context: Context | None = None,
    ) -> None:
        self._loop = loop
        self._work = work
        # An empty one, if none is given. A timer would keep the context of the call that needs it, and with it the spans of the
        # caller.
        self._context = Context() if context is None else context
        self._timer: asyncio.TimerHandle | None = None
        # Kept here: for a time that is due at once, uvloop makes a handle without a time.
        self._at = math.inf
        # The earliest possible firing: a requested deadline may have passed already.
        self._possible_at = math.inf
        # The timer that was set when an earlier one was requested: nearly always it is needed again behind that.
        self._later: asyncio.TimerHandle | None = None
        self._later_at = self._later_possible_at = math.inf
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
            if self._later is not None:
                self._later.cancel()
            self._later, self._later_at, self._later_possible_at = self._timer, self._at, self._possible_at
            self._timer, self._at, self._possible_at = timer, deadline, possible_at

    def _due(self) -> None:
        self._late = max(self._late, self._loop.time() - self._possible_at)
        self._timer, self._at, self._possible_at = self._later, self._later_at, self._later_possible_at
        self._later, self._later_at = None, math.inf
        if self._waiter is None or self._rung or not self._work():
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
        if self._later is not None:
            self._later.cancel()
            self._later, self._later_at = None, math.inf

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

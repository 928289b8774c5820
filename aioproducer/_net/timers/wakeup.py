"""One timer and one bell: a task sleeps until the earliest deadline, or until it is called."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


class Wakeup:
    """Wakes the one task that waits on it. Only the earliest deadline is kept."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        # Not asked of the timer: uvloop makes a handle without a time for what is due at once.
        self._at = math.inf
        # When it could ring at the earliest: what is asked for may be over already.
        self._possible_at = math.inf
        self._waiter: asyncio.Future[None] | None = None
        self._rung = False
        self._late = 0.0

    def by(self, deadline: float) -> None:
        """Ring at `deadline` at the latest."""
        if deadline < self._at:
            possible_at = max(deadline, self._loop.time())
            # First: without memory for it, the alarm that was set before stays.
            timer = self._loop.call_at(deadline, self._due)
            if self._at <= deadline:
                # The collector ran in between, and with it code that asked for an earlier time.
                timer.cancel()
                return
            self.silence()
            self._timer, self._at, self._possible_at = timer, deadline, possible_at

    def _due(self) -> None:
        self._late = max(self._late, self._loop.time() - self._possible_at)
        self._timer, self._at = None, math.inf
        self.ring()

    def late_by(self) -> float:
        """By how many seconds it rang late since this was last asked, because the loop was held up."""
        late, self._late = self._late, 0.0
        return late

    def ring(self) -> None:
        """Wake the task now."""
        self._rung = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def silence(self) -> None:
        """Forget the deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._at = None, math.inf

    async def wait(self) -> None:
        """Sleep until the alarm rings; at once when it rang since the last wait."""
        # Made before it is looked: the collector may run as it is made, and with it code that rings.
        waiter = self._loop.create_future()
        if not self._rung:
            self._waiter = waiter
            try:
                await waiter
            finally:
                self._waiter = None
        self._rung = False

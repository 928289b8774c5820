"""No call exceeds its bound."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from tests.simulation.ledger import in_a_moment
from tests.simulation.loop import SimulatedLoop


@attrs.define(eq=False)
class Bounds:
    """Measures calls."""

    loop: SimulatedLoop
    broken: list[str] = attrs.Factory(list)

    @contextmanager
    def within(self, what: str, seconds: float) -> Iterator[None]:
        """The call returns within so many seconds; while the loop stands still, no call can return."""
        over = False
        allowed_for = self.loop.stalled
        timer: asyncio.TimerHandle

        def overdue() -> None:
            nonlocal timer, allowed_for
            if over:
                return
            stalled, allowed_for = self.loop.stalled - allowed_for, self.loop.stalled
            if stalled:
                # A record that is accepted behind the stall has its whole delivery time from then on.
                timer = self.loop.call_later(stalled, in_a_moment, self.loop, overdue)
            else:
                self.broken.append(f"{what} goes on after {seconds:.3f} s")

        timer = self.loop.call_later(seconds, in_a_moment, self.loop, overdue)
        try:
            yield
        finally:
            over = True
            timer.cancel()

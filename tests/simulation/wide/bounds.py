"""No call exceeds its bound."""

from __future__ import annotations

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
        """The call returns within so many seconds; a loop that was held up gets a moment more."""
        over = False

        def overdue() -> None:
            if not over:
                self.broken.append(f"{what} goes on after {seconds:.3f} s")

        timer = self.loop.call_later(seconds, in_a_moment, self.loop, overdue)
        try:
            yield
        finally:
            over = True
            timer.cancel()

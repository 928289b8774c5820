"""How long a loop was kept from turning: no outcome can be earlier than that allows."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from typing import Final

import attrs

_SOME_TURNS: Final = 4
"""An outcome that is due takes so many: to wake, to look twice for answers that have arrived, to tell."""
_REMEMBERED: Final = 1000


@attrs.frozen
class Lag:
    """How long the loop was kept from turning: the longest time, and the longest few together."""

    longest: float = 0.0
    of_some_turns: float = 0.0


@attrs.define(eq=False)
class LagWatch:
    """Measures the lag of the loop that runs `watch()`."""

    tick: float = 0.02
    _slowest: list[float] = attrs.field(factory=lambda: [0.0] * _SOME_TURNS, init=False)
    _latest: deque[tuple[float, float]] = attrs.field(factory=lambda: deque(maxlen=_REMEMBERED), init=False)
    """When the loop turned again, and how long it had not."""
    _asleep_since: float = attrs.field(default=float("inf"), init=False)

    async def watch(self) -> None:
        """Runs until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._asleep_since = loop.time()
            await asyncio.sleep(self.tick)
            now = loop.time()
            lag = now - self._asleep_since - self.tick
            heapq.heappushpop(self._slowest, lag)
            self._latest.append((now, lag))

    @property
    def so_far(self) -> Lag:
        """Since it was last taken."""
        return Lag(max(self._slowest), sum(self._slowest))

    def take(self) -> Lag:
        """The lag so far; begins a new measurement."""
        lag = self.so_far
        self._slowest[:] = [0.0] * _SOME_TURNS
        return lag

    def between(self, begin: float, end: float) -> float:
        """Seconds between these two moments, the second of which is now, in which the loop was kept from turning."""
        held_up = max(0.0, end - max(begin, self._asleep_since + self.tick))
        for turned_at, lag in reversed(self._latest):
            if turned_at <= begin:
                break
            held_up += max(0.0, min(lag, turned_at - begin))
        return held_up

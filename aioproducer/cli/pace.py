"""Sending at a limited rate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

WORTH_SLEEPING = 0.001


class Pace:
    """A number of records per second, over all tasks."""

    def __init__(self, rate: float, now: Callable[[], float]) -> None:
        self._rate = rate
        self._now = now
        self._began = now()

    def wait(self, sent: int) -> float:
        """The seconds to wait if this number of records was sent too early; 0 where a wait is not worth it."""
        early = self._began + sent / self._rate - self._now()
        return early if early >= WORTH_SLEEPING else 0.0

    async def keep(self, sent: int) -> None:
        """Wait if this number of records was sent too early."""
        if wait := self.wait(sent):
            await asyncio.sleep(wait)

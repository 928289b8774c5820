"""Sending no faster than asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

WORTH_SLEEPING = 0.001


class Pace:
    """So many records in a second, over all the tasks."""

    def __init__(self, rate: float, now: Callable[[], float]) -> None:
        self._rate = rate
        self._now = now
        self._began = now()

    async def keep(self, sent: int) -> None:
        """So many are sent by now; wait if that was early."""
        early = self._began + sent / self._rate - self._now()
        if early >= WORTH_SLEEPING:
            await asyncio.sleep(early)

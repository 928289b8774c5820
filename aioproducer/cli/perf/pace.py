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
        self._sent = 0

    async def keep(self) -> None:
        """One record is sent; wait if that was early."""
        self._sent += 1
        early = self._began + self._sent / self._rate - self._now()
        if early >= WORTH_SLEEPING:
            await asyncio.sleep(early)

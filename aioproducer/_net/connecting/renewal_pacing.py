"""The distance between the renewals of sessions of one producer: a broker that refuses them refuses the first one alone."""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

__all__ = ["RenewalPacing"]

# Seconds that a renewal waits for another one: a broker that does not answer holds up no other.
_AFTER_ONE_ANOTHER: Final = 1.0
# The part of its remaining time for which it waits for others at most: a renewal takes time as well.
_OF_THE_REST: Final = 0.25


class RenewalPacing:
    """Renewals follow one another, also before any refusal: sessions that began together would all renew at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Renewals under way, the beginning of the newest, and the end of any.
        self._renewals = 0
        self._began = -math.inf
        self._ended = asyncio.Event()

    @contextlib.asynccontextmanager
    async def turn(self, left: float) -> AsyncIterator[None]:
        """Wait for the renewals before this one, of whose session so many seconds are left."""
        await self._follow(self._loop.time() + left * _OF_THE_REST)
        with self._under_way():
            yield

    async def _follow(self, until: float) -> None:
        """Wait until no renewal is under way, or the newest has taken a second."""
        while self._renewals:
            pause = min(until, self._began + _AFTER_ONE_ANOTHER) - self._loop.time()
            if pause <= 0:
                return
            with anyio.move_on_after(pause):
                await self._ended.wait()

    @contextlib.contextmanager
    def _under_way(self) -> Iterator[None]:
        self._renewals += 1
        self._began = self._loop.time()
        try:
            yield
        finally:
            self._renewals -= 1
            self._ended.set()
            self._ended = asyncio.Event()

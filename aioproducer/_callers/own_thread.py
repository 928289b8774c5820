"""Calls that block, each in a thread of its own, or one at a time where a call may never return."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import anyio
import anyio.to_thread

__all__ = ["OneThread", "in_own_thread"]

T = TypeVar("T")

_LONGEST_WAIT: Final = 60.0


async def in_own_thread(function: Callable[[], T]) -> T:
    """The result of a call that blocks. The shared threads of the program may be busy with blocking jobs."""
    return await anyio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))


class OneThread:
    """Calls that may never return: the next one waits for the end of the one before it, also if that was given up.

    Otherwise each attempt at a connection would leave a thread behind. It waits for a minute at most: what a call waits for may
    have been replaced.
    """

    def __init__(self) -> None:
        self._ended: Future[None] | None = None
        self._began_at = -math.inf

    async def call(self, function: Callable[[], T]) -> T:
        """The result of a call."""
        while (before := self._ended) is not None and not before.done():
            left = self._began_at + _LONGEST_WAIT - time.monotonic()
            if left <= 0:
                break
            with anyio.move_on_after(left):
                await asyncio.wrap_future(before)
        self._ended = ended = Future[None]()
        self._began_at = time.monotonic()
        # The wait of another caller that is given up does not cancel it.
        ended.set_running_or_notify_cancel()
        begun: list[bool] = []
        try:
            return await in_own_thread(partial(_called, function, begun, ended))
        finally:
            if not begun:
                _end(ended)


def _called(function: Callable[[], T], begun: list[bool], ended: Future[None]) -> T:
    begun.append(True)
    try:
        return function()
    finally:
        _end(ended)


def _end(ended: Future[None]) -> None:
    # The thread may begin at the moment at which its caller gives up.
    with suppress(InvalidStateError):
        ended.set_result(None)

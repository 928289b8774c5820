"""Calls that block, each in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread

__all__ = ["in_own_thread"]

T = TypeVar("T")


async def in_own_thread(function: Callable[[], T]) -> T:
    """The result of a call that blocks. The shared threads of the program may be busy with blocking jobs."""
    return await anyio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))

"""A timer that is finer than the loop's: on Linux loops wake up to a millisecond late, as epoll counts in milliseconds.

`timerfd` is exact. Python has it from 3.13 on; older versions call it in the C library. Elsewhere, and on loops that
watch no files, the loop's own timers are used.
"""

from __future__ import annotations

import functools
import os
import struct
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    import ctypes
    from collections.abc import Callable

CLOCK_MONOTONIC = 1
NANOSECONDS = 1_000_000_000
NOT_OPEN = -1
# A struct itimerspec: the interval, which is zero here, and the first time, where zero would switch the timer off.
TIMER_SPEC = struct.Struct("@4l")


class FineTimer:
    """Fires all pending callbacks once. The latest caller sets the time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._callbacks: list[Callable[[], object]] = []
        # The kernel's timer; opened on its first use, as most producers never need it.
        self._file = NOT_OPEN
        self._may_be_fine = sys.platform == "linux"

    def ring_at(self, when: float, callback: Callable[[], object]) -> None:
        """Call back at `when`, by the loop's clock, or soon after it."""
        if callback not in self._callbacks:
            self._callbacks.append(callback)
        if self._may_be_fine and (self._file != NOT_OPEN or self._open()):
            _set(self._file, when - self._loop.time())
        else:
            self._loop.call_at(when, self._ring)

    def close(self) -> None:
        """Never fire again."""
        self._callbacks.clear()
        self._may_be_fine = False
        if self._file != NOT_OPEN:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = NOT_OPEN

    def _open(self) -> bool:
        file = _libc().timerfd_create(CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if file == NOT_OPEN:
            self._may_be_fine = False
            return False
        try:
            self._loop.add_reader(file, self._due)
        except NotImplementedError:
            os.close(file)
            self._may_be_fine = False
            return False
        self._file = file
        return True

    def _due(self) -> None:
        try:
            os.read(self._file, 8)
        except BlockingIOError:
            # The timer was set again after it fired, before the loop saw it.
            return
        self._ring()

    def _ring(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


@functools.cache
def _libc() -> ctypes.CDLL:
    import ctypes  # noqa: PLC0415  # a megabyte that most producers do not need

    return ctypes.CDLL(None)


def _set(file: int, seconds: float) -> None:
    whole, part = divmod(max(round(seconds * NANOSECONDS), 1), NANOSECONDS)
    _libc().timerfd_settime(file, 0, TIMER_SPEC.pack(0, 0, whole, part), None)

"""The events that a relay waits for: outcomes, the end, new rows, the lock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

__all__ = ["END_OF_THE_PROGRAM", "Signals", "ended", "first_of", "is_cancelled"]

# Any other exception of a user's object is a failure, after which the relay begins again.
END_OF_THE_PROGRAM: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)


class Signals:
    """The request to end, and the changes that a relay waits for: an outcome, or that request."""

    def __init__(self) -> None:
        self._stop = asyncio.Event()
        self._changed = asyncio.Event()

    @property
    def stopping(self) -> bool:
        """Whether no further row may be sent."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Ask the relay to end."""
        self._stop.set()
        self.changed()

    def changed(self) -> None:
        """A record has its outcome, or the relay shall end."""
        self._changed.set()

    def clear(self) -> None:
        """Begin to note changes; called before the state is read that they are about."""
        self._changed.clear()

    async def next_change(self) -> None:
        """Wait for a change since `clear()`."""
        await self._changed.wait()

    async def pause(self, seconds: float) -> None:
        """Wait for so many seconds, or until the relay shall end."""
        await first_of(self._stop.wait(), timeout=seconds)


async def first_of(*coroutines: Coroutine[Any, Any, Any], timeout: float | None = None) -> None:
    """Run all until the first has ended, or the time is over; cancel the others. Raises the error of one that failed."""
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await ended(*tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()


async def ended(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    # A task that catches its cancellation could take long; that of this task is passed on at once.
    if tasks:
        await asyncio.wait(tasks)


def is_cancelled() -> bool:
    """Whether this task was cancelled; an object of the user may raise a CancelledError of its own."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

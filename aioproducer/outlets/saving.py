"""Saving of positions: one call of the user's function at a time, each with a newer position than the last."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from aioproducer._net.log import log
from aioproducer._net.observing.failures import END_OF_THE_PROGRAM
from aioproducer.errors import StateError

__all__ = ["Saver"]

# The shortest pause after a save that failed, in seconds.
PAUSE: float = 0.1


class Saver:
    """Calls `save(position)` in a task while `newest()` has a position that is not saved.

    `newest` returns the number of the newest position, and the position. The calls begin at least `every` seconds apart.
    """

    def __init__(
        self,
        save: Callable[[Any], object],
        every: float,
        newest: Callable[[], tuple[int, Any]],
        on_saved: Callable[[], object],
    ) -> None:
        self._save = save
        self._every = every
        self._newest = newest
        self._on_saved = on_saved
        self.saved = 0
        # The exception of the last call, None after a success.
        self.error: BaseException | None = None
        self._due = 0.0
        self._task: asyncio.Task[None] | None = None
        self._is_last = False
        self._woken = asyncio.Event()

    def begin(self) -> None:
        """There may be a position that is not saved."""
        if self._task is None and self._newest()[0] > self.saved:
            self._task = asyncio.get_running_loop().create_task(
                self._run(), name="aioproducer-checkpoint-save"
            )

    async def finish(self) -> None:
        """Save the newest position now, and raise if that fails."""
        self._is_last = True
        self._woken.set()
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._newest()[0] > self.saved:
            await self._save_newest(raises=True)

    def cancel(self) -> None:
        """End a call that does not return."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._newest()[0] > self.saved and not self._is_last:
                if await self._is_interrupted(self._due - loop.time()):
                    return
                self._due = loop.time() + self._every
                await self._save_newest(raises=False)
                if self.error is not None:
                    self._due = max(self._due, loop.time() + PAUSE)
        finally:
            self._task = None

    async def _is_interrupted(self, seconds: float) -> bool:
        """Wait so many seconds; True when the last save is to be made at once instead."""
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            except TimeoutError:
                pass
        return self._is_last

    async def _save_newest(self, *, raises: bool) -> None:
        number, position = self._newest()
        try:
            made = self._save(position)
            if inspect.isawaitable(made):
                await made
        except BaseException as error:
            if isinstance(error, END_OF_THE_PROGRAM) or _is_cancelled(error):
                raise
            self.error = error
        else:
            self.error = None
            self.saved = max(self.saved, number)
            self._on_saved()
            return
        if raises:
            raise _error_of(self.error)
        log.error(
            "the position of a checkpoint was not saved; the next save tries again", exc_info=self.error
        )


def _is_cancelled(error: BaseException) -> bool:
    """Whether this is the cancellation of this task, and not one of something that the function has awaited."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _error_of(error: BaseException) -> BaseException:
    """The exception that `close()` raises: another CancelledError would end the task of its caller."""
    if isinstance(error, asyncio.CancelledError):
        return StateError("save() was cancelled; the last position may not be saved", cause=error)
    return error

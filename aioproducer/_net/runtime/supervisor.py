"""The supervisor: the one task of a producer that owns its other tasks.

Different tasks may call `start()` and `close()` of the producer, but a task group must be left by the task that entered
it. So one supervisor task owns the group, and all other code only signals it. If the supervisor ends for any reason,
every delivery fails with the cause: no call ever waits for a finished task.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio

from aioproducer._net.tasks import Tasks, context_of_tasks
from aioproducer.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Supervisor:
    """Owns the tasks of one producer: it ends with each of them, and they end with it.

    `begin` starts the tasks, and `before_end` is called before they are cancelled. `end` takes the cause of the end when no task
    is left, and `after` is awaited last.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        begin: Callable[[Tasks], None],
        before_end: Callable[[], None],
        end: Callable[[BaseException | None], None],
        after: Callable[[], Awaitable[None]],
    ) -> None:
        self.tasks: Tasks | None = None
        self.task: asyncio.Task[None] | None = None
        self.stopping = False
        self.crashed: BaseException | None = None
        self._loop = loop
        self.context = context_of_tasks()
        self._begin = begin
        self._before_end = before_end
        self._end = end
        self._after = after
        self._over = asyncio.Event()
        self._has_begun = asyncio.Event()

    def start(self) -> None:
        """Start the task."""
        self.task = self._loop.create_task(self._supervise(), name="aioproducer supervisor")
        self.task.add_done_callback(self._never_ran)

    def _never_ran(self, task: asyncio.Task[None]) -> None:
        # A task that is cancelled before its first step never runs, not even its `finally`.
        if task.cancelled() and not self._has_begun.is_set():
            self._end(StateError("the producer's background task was cancelled before it began"))
            self._has_begun.set()

    async def begun(self) -> None:
        """Wait until the tasks have taken their first step: from then on their end is always reported."""
        await self._has_begun.wait()

    async def _supervise(self) -> None:
        cause: BaseException | None = None
        try:
            async with anyio.create_task_group() as group:
                self.tasks = Tasks(group, self.context)
                try:
                    await self._look_on(self.tasks)
                finally:
                    self._before_end()
                group.cancel_scope.cancel()
        except BaseException as error:  # noqa: BLE001  # every delivery gets it as its cause
            cause = error
        else:
            cause = self.crashed
        finally:
            self.tasks = None
            self._has_begun.set()
            self._end(first_of(cause))
        await self._after()

    async def _look_on(self, tasks: Tasks) -> None:
        self._begin(tasks)
        await asyncio.sleep(0)
        self._has_begun.set()
        await self._over.wait()
        if self.crashed is not None:
            raise self.crashed

    def look_after(self, name: str, run: Callable[[], Awaitable[None]]) -> bool:
        """Run one of the essential tasks: the producer ends with it, and it ends with the producer.

        False: the producer has ended.
        """
        if self.tasks is None or self.tasks.are_cancelled:
            return False
        self.tasks.start_soon(self._vital, name, run, name=f"aioproducer {name}")
        return True

    async def _vital(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        try:
            await run()
        except asyncio.CancelledError:
            if self._is_ending():
                raise
            # Cancelled from outside, and possibly alone: the other tasks would wait for it without end. It still ends
            # as cancelled, or asyncio.run() would print a traceback for each task that it cancels at its end.
            self.crash(StateError(f"the {name} task of the producer was cancelled from outside"))
            raise
        except BaseException as error:
            # At once: the other tasks are cancelled later, and until then no commit may be requested.
            self.crash(error)
            raise

    def _is_ending(self) -> bool:
        """Whether the producer itself cancels the tasks."""
        return self.tasks is None or self.tasks.are_cancelled

    def crash(self, cause: BaseException) -> None:
        """End the producer because of a bug that showed outside its tasks."""
        if self.crashed is None:
            self.crashed = cause
            self._over.set()

    def stop(self) -> None:
        """Ask the task to end."""
        self.stopping = True
        self._over.set()


def first_of(error: BaseException | None) -> BaseException | None:
    """The error itself, where a task group wrapped it; tasks that were cancelled because of it do not count."""
    while isinstance(error, BaseExceptionGroup):
        told = [each for each in error.exceptions if not isinstance(each, asyncio.CancelledError)]
        error = (told or error.exceptions)[0]
    return error

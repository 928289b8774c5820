"""The first step of a coroutine in the call that made it: a coroutine that never suspends needs no task.

`asyncio.current_task()` is a spare task during the step. The spare task runs the rest of a coroutine that suspends, so
that a time limit or a task group that the coroutine has entered belongs to the task that runs it to its end.
"""

from __future__ import annotations

import asyncio
import sys
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

# asyncio documents these for implementations of tasks. To leave a task and to enter another needs memory in between:
# without it the loop would have no current task any more. To replace one by another needs none.
if sys.version_info >= (3, 12):
    from asyncio.tasks import _swap_current_task as _set_current_task
else:
    from asyncio.tasks import _current_tasks  # type: ignore[attr-defined]

    def _set_current_task(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None) -> None:
        """Make a task the current one of a loop."""
        if task is None:
            del _current_tasks[loop]
        else:
            _current_tasks[loop] = task


if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

T = TypeVar("T")


class Suspended(Generic[T]):
    """A coroutine after its first step: awaiting it runs the rest, in the context of the first step."""

    def __init__(
        self, coroutine: Coroutine[Any, Any, T], context: Context, yielded: Any, spare: Spare
    ) -> None:
        self.spare = spare
        self._coroutine = coroutine
        self._context = context
        self._yielded = yielded

    def __await__(self) -> Generator[Any, Any, T]:
        run, coroutine, yielded = self._context.run, self._coroutine, self._yielded
        try:
            while True:
                try:
                    sent = yield yielded
                except GeneratorExit:
                    run(coroutine.close)
                    raise
                except BaseException as error:  # noqa: BLE001  # a cancellation, for the coroutine
                    yielded = run(coroutine.throw, error)
                else:
                    yielded = run(coroutine.send, sent)
        except StopIteration as done:
            result: T = done.value
            return result

    def close(self) -> None:
        """End the coroutine at its present place."""
        self._context.run(self._coroutine.close)


class Spare:
    """A waiting task that runs the rest of a coroutine on demand."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._wanted: asyncio.Future[None] = loop.create_future()
        self._work: Coroutine[Any, Any, None] | None = None
        self._rest: Suspended[Any] | None = None
        self._begun = False
        self.task: asyncio.Task[None] = loop.create_task(self._run(), name=name)

    @property
    def usable(self) -> bool:
        """True while nothing has ended or cancelled the task."""
        return not self.task.done() and not self.task.cancelling()

    def work(self, work: Coroutine[Any, Any, None], rest: Suspended[Any]) -> None:
        """Run this work, which awaits the rest of the coroutine."""
        self._work, self._rest = work, rest
        self.task.add_done_callback(self._close)
        if not self._wanted.done():
            self._wanted.set_result(None)

    def cancel(self) -> None:
        """Cancel the task. A task that is cancelled before its own first step would never run its work."""
        if self._begun:
            self.task.cancel()
        else:
            self._loop.call_soon(self.task.cancel)

    async def _run(self) -> None:
        self._begun = True
        try:
            await self._wanted
        except asyncio.CancelledError as error:
            if self._work is None:
                raise
            # Cancelled after the work was given: the cancellation is for the work, at its present place.
            self.task.uncancel()
            self.task.cancel(*error.args)
        work, self._work, self._rest = self._work, None, None
        if work is not None:
            await work

    def _close(self, _task: asyncio.Task[None]) -> None:
        """The task ended before it had begun, and its work ends too."""
        if self._work is not None:
            self._work.close()
        if self._rest is not None:
            self._rest.close()


class FirstSteps:
    """Takes first steps in one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._name = name
        self._spare: Spare | None = None

    def take(self, coroutine: Coroutine[Any, Any, T]) -> T | Suspended[T]:
        """Run the coroutine until it suspends or ends: its result, what it raises, or the rest of it."""
        try:
            context, spare = copy_context(), self._take_spare()
        except BaseException:
            coroutine.close()
            raise
        try:
            yielded = self._step(coroutine, context, spare.task)
        except StopIteration as done:
            self._give_back(spare)
            result: T = done.value
            return result
        except BaseException:
            # Without memory it may not have begun.
            coroutine.close()
            self._give_back(spare)
            raise
        return Suspended(coroutine, context, yielded, spare)

    def _take_spare(self) -> Spare:
        # A first step may lead to another one, which needs a task of its own: it may suspend as well.
        spare, self._spare = self._spare, None
        if spare is not None and spare.usable:
            return spare
        # In a context of its own: the task would keep the caller's context alive.
        return Context().run(Spare, self._loop, self._name)

    def _give_back(self, spare: Spare) -> None:
        if self._spare is None:
            self._spare = spare
        else:
            spare.cancel()

    def _step(self, coroutine: Coroutine[Any, Any, Any], context: Context, task: asyncio.Task[None]) -> Any:
        caller = asyncio.current_task(self._loop)
        _set_current_task(self._loop, task)
        try:
            return context.run(coroutine.send, None)
        finally:
            _set_current_task(self._loop, caller)

    def end(self) -> asyncio.Task[None] | None:
        """Cancel the spare task, and return it where there is one."""
        spare, self._spare = self._spare, None
        if spare is None:
            return None
        spare.cancel()
        return spare.task

"""Calls from other threads: work for an event loop, and the check of the calling thread.

The future of such work also ends when the loop ends first.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import weakref
from asyncio.events import _get_running_loop  # asyncio's own low-level form: None where no loop runs
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from aioproducer.errors import StateError
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["require_loop", "run_in_loop"]

T = TypeVar("T")


def require_loop(loop: asyncio.AbstractEventLoop | None, call: str = "try_cancel") -> None:
    """Raise unless this loop runs here: another thread would change the state of the loop at the same time."""
    if _get_running_loop() is not loop:
        raise StateError(
            f"call {call}() from the event loop of the producer; from another thread use "
            + (
                "loop.call_soon_threadsafe(delivery.try_cancel)"
                if call == "try_cancel"
                else f"asyncio.run_coroutine_threadsafe(delivery.{call}(), loop)"
            )
        )


def run_in_loop(
    loop: asyncio.AbstractEventLoop, work: Callable[[], Awaitable[T]]
) -> concurrent.futures.Future[T]:
    """Call and await `work` in this loop. Cancelling the future cancels it; a closed loop is a `StateError`."""
    handed_over = _HandedOver(loop, work)
    try:
        loop.call_soon_threadsafe(handed_over)
    except RuntimeError as error:
        handed_over.begun = True
        raise StateError("the event loop of the producer is closed", cause=error) from error
    return handed_over.future


class _HandedOver(Generic[T]):
    """A callback of the loop. A loop that is closed drops it, and with it the task that it has begun."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Awaitable[T]]) -> None:
        self.future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self.begun = False
        self._loop = loop
        self._work = work

    def __call__(self) -> None:
        self.begun = True
        if self.future.cancelled():
            # A thread that waits for several futures at once sees the start only now.
            self.future.set_running_or_notify_cancel()
        else:
            # Weakly: a reference from the future would keep a task whose loop was closed, and the task would never end.
            task = weakref.ref(self._loop.create_task(_awaited(self._work, self.future)))
            loop = self._loop
            self.future.add_done_callback(lambda future: _cancel(future, task(), loop))

    def __del__(self) -> None:
        if not self.begun:
            _end(self.future, StateError("the event loop ended before the record was accepted"))


async def _awaited(work: Callable[[], Awaitable[T]], future: concurrent.futures.Future[T]) -> None:
    try:
        result = await work()
    except asyncio.CancelledError:
        future.cancel()
        future.set_running_or_notify_cancel()
        raise
    except GeneratorExit:
        text = "the event loop ended before the outcome of the record was known"
        _end(future, StateError(text, outcome=Outcome.UNKNOWN))
        raise
    except BaseException as error:
        _end(future, error)
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
    else:
        if future.set_running_or_notify_cancel():
            future.set_result(result)


def _end(future: concurrent.futures.Future[Any], error: BaseException) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(error)


def _cancel(
    future: concurrent.futures.Future[Any], task: asyncio.Task[None] | None, loop: asyncio.AbstractEventLoop
) -> None:
    """Called in the thread that cancels the future, or in the loop when the future has its result."""
    if task is not None and future.cancelled() and not loop.is_closed():
        loop.call_soon_threadsafe(task.cancel)

"""A coroutine whose task is cancelled at its n-th suspension: every await point of a call can be enumerated."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Collection, Coroutine, Generator
from typing import Any

import attrs


class Moment(enum.Enum):
    """When a suspended task is cancelled."""

    SUSPENDED = "as it suspends"
    WOKEN = "when what it waits for is there, before it runs on"


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


class Stepped(Coroutine[Any, Any, Any]):
    """Goes through a coroutine step by step; `cancel_at` are the numbers of the suspensions at which it is cancelled."""

    def __init__(self, awaitable: Awaitable[Any], cancel_at: Collection[int], moment: Moment) -> None:
        self._inner = _awaited(awaitable)
        self._cancel_at = cancel_at
        self._moment = moment
        self.suspensions = 0
        self.cancels = 0

    def send(self, value: Any) -> Any:
        """Run to the next suspension."""
        return self._suspended(self._inner.send(value))

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any:
        """Raise inside, and run to the next suspension."""
        return self._suspended(self._inner.throw(kind if value is None else value))

    def close(self) -> None:
        """End it."""
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()

    def _suspended(self, future: Any) -> Any:
        self.suspensions += 1
        if self.suspensions in self._cancel_at:
            task = asyncio.current_task()
            assert task is not None
            if self._moment is Moment.SUSPENDED:
                self._cancel(task)
            elif future is None:
                asyncio.get_running_loop().call_soon(self._cancel, task)
            else:
                # Before the task adds its own: so this is called first.
                future.add_done_callback(lambda _: self._cancel(task))
        return future

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        if not task.done():
            self.cancels += 1
            task.cancel()


@attrs.frozen
class Ended:
    """How a call ended that was to be cancelled."""

    suspensions: int
    cancels: int
    cancelled: bool
    result: Any
    error: BaseException | None


async def cancelled_at(
    awaitable: Awaitable[Any], cancel_at: Collection[int], moment: Moment = Moment.SUSPENDED
) -> Ended:
    """Run the call in a task of its own, and cancel it at these suspensions."""
    stepped = Stepped(awaitable, cancel_at, moment)
    task = asyncio.get_running_loop().create_task(stepped)
    async with asyncio.timeout(10):
        await asyncio.wait([task])
    error = None if task.cancelled() else task.exception()
    result = None if task.cancelled() or error else task.result()
    return Ended(stepped.suspensions, stepped.cancels, task.cancelled(), result, error)

"""One request for any number of tasks that want the same.

A flight is a task of its own: cancelling a caller does not cancel it. It has no context of a call, so that it keeps none,
and is no part of the span or the log line of the call that happened to come first. It lasts until the latest time limit of
its callers.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Hashable
from contextvars import Context, ContextVar
from typing import Any, Final, Generic, TypeVar, cast

import attrs

from aioproducer.errors import KafkaError, StateError
from aioproducer.registry.errors import RegistryError

__all__ = ["Flight", "Flights", "Wait", "waits"]

T = TypeVar("T")

NAME: Final = "aioproducer registry"


@attrs.define(eq=False)
class Wait:
    """The request that a task of a serializer waits for."""

    flight: Flight[Any] | None = None


waits: Final[ContextVar[Wait | None]] = ContextVar("waits", default=None)
"""Set in a task that tells what it waits for."""


@attrs.define(eq=False)
class Flight(Generic[T]):
    """A request on its way: when it ends at the latest, and its last failure so far."""

    until: float
    trouble: RegistryError | None = None
    # The address that was asked last.
    url: str | None = None
    limit: asyncio.Timeout | None = None
    _task: asyncio.Task[T | BaseException] | None = None

    def start(self, work: Callable[[Flight[T]], Coroutine[Any, Any, T]]) -> asyncio.Task[T | BaseException]:
        """Begin the request."""
        loop = asyncio.get_running_loop()
        task = Context().run(loop.create_task, self._outcome(work), name=NAME)
        self._task = task
        return task

    async def joined(self, until: float) -> T:
        """The result, or its error, or that of the time: for one caller, who may be cancelled."""
        if until > self.until:
            self.until = until
            # An attempt that ends in this turn cannot be prolonged; another one follows it.
            if self.limit is not None and not self.limit.expired():
                self.limit.reschedule(until)
        task = cast("asyncio.Task[T | BaseException]", self._task)
        wait = waits.get()
        if wait is not None:
            wait.flight = self
        await _ended(task, until)
        if not task.done():
            raise self.late()
        if task.cancelled():
            raise StateError("the registry was closed, or its event loop ends")
        outcome = task.result()
        if isinstance(outcome, BaseException):
            # Each caller raises its own: a traceback grows with each that raises it.
            raise copy.copy(outcome) if isinstance(outcome, KafkaError) else outcome
        return outcome

    def late(self) -> RegistryError:
        """The error of a caller whose time is over."""
        if self.trouble is not None:
            return copy.copy(self.trouble)
        return RegistryError("the schema registry did not answer in time", url=self.url, retriable=True)

    async def _outcome(self, work: Callable[[Flight[T]], Coroutine[Any, Any, T]]) -> T | BaseException:
        try:
            return await work(self)
        except Exception as error:  # noqa: BLE001  # for the callers
            return error.with_traceback(None)


async def _ended(task: asyncio.Task[Any], until: float) -> None:
    """Wait for the end of the task, or of the time. Not `asyncio.wait()`, whose timer keeps the context of a cancelled call."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def wake(_task: object = None) -> None:
        if not over.done():
            over.set_result(None)

    timer = loop.call_at(until, wake, context=Context())
    task.add_done_callback(wake, context=Context())
    try:
        await over
    finally:
        timer.cancel()
        task.remove_done_callback(wake)


class Flights:
    """The requests of a registry that are under way."""

    def __init__(self) -> None:
        self._running: dict[Hashable, Flight[Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def share(
        self, key: Hashable, until: float, work: Callable[[Flight[T]], Coroutine[Any, Any, T]]
    ) -> T:
        """The result of the request under this key, which begins if there is none."""
        flight = cast("Flight[T]", self._running.get(key) or self.begin(key, until, work))
        return await flight.joined(until)

    def begin(
        self, key: Hashable, until: float, work: Callable[[Flight[T]], Coroutine[Any, Any, T]]
    ) -> Flight[T]:
        """The request under this key."""
        running = self._running.get(key)
        if running is not None:
            return running
        flight: Flight[T] = Flight(until)
        task = flight.start(work)
        self._running[key] = flight
        self._tasks.add(task)

        def ended(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            if self._running.get(key) is flight:
                del self._running[key]

        task.add_done_callback(ended, context=Context())
        return flight

    async def close(self) -> None:
        """Cancel all, and wait for their ends."""
        self._running.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

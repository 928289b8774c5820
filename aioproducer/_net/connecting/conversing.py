"""The driver of dialogues: performs each step on a connection, all of them within one time limit.

On a connection in use, the steps before the first request of the dialogue delay nothing: credentials are fetched while
other requests continue. From its first request on, new requests wait until the dialogue is over. The dialogue does not wait
for requests in flight: a broker executes one request at a time, so it answers them first.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import errno
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio

from aioproducer._callers.own_thread import OneThread, in_own_thread
from aioproducer._net.connecting.connection.asking import ask
from aioproducer._net.connecting.security import CredentialsChanged
from aioproducer._state.connecting.dialogue import Ask, Await, Compute, Now
from aioproducer.errors import BrokerUnavailableError, KafkaError

if TYPE_CHECKING:
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._state.connecting.dialogue import Dialogue, Step

__all__ = ["converse", "converse_in_use", "in_a_thread", "in_one_thread"]

R = TypeVar("R")
T = TypeVar("T")
NO_THREAD: Final = "can't start new thread"
"""The text of Python's error."""


async def converse(connection: Connection, dialogue: Dialogue[T], *, timeout: float) -> T:
    """The result of a dialogue on a connection that nothing else uses yet.

    The error of a step is raised inside the dialogue. A dialogue that takes longer than `timeout` seconds ends with a
    TimeoutError that names the step.
    """
    return await _run(dialogue, partial(_perform, connection), _limit(timeout))


async def converse_in_use(
    connection: Connection, dialogue: Dialogue[T], *, timeout: float, begin_within: float = math.inf
) -> T:
    """The result of a dialogue on a connection that is in use, behind its requests in flight.

    A dialogue that fails, times out or is cancelled before its first request leaves the connection as it was. After that
    the broker accepts nothing but the rest of the exchange, so the connection ends as well.

    `timeout` is for the steps before the first request, of which there must be one within `begin_within` seconds, and then again
    for the exchange. Requests in flight do not count: the broker answers them first, and each has a time limit of its own.
    """
    limit = _limit(min(timeout, begin_within))
    holding = _Holding(connection, limit, timeout)
    try:
        return await _run(dialogue, holding.perform, limit)
    except BaseException as error:
        holding.break_off(error)
        raise
    finally:
        holding.end()


async def in_a_thread(function: Callable[[], R]) -> R:
    """Call a function in a separate thread: shared threads may be busy with blocking jobs, or shut down.

    OSError if the system has no room for a thread now: callers try again after it.
    """
    return await _started(in_own_thread(function))


async def in_one_thread(thread: OneThread, function: Callable[[], R]) -> R:
    """The same for a call that may never return, behind the one before it."""
    return await _started(thread.call(function))


async def _started(call: Awaitable[R]) -> R:
    try:
        return await call
    except RuntimeError as error:
        # The interpreter has no class of its own for it.
        if str(error) != NO_THREAD:
            raise
    raise OSError(errno.EAGAIN, NO_THREAD)


class _Holding:
    """A dialogue that holds a connection in use from its first request on."""

    def __init__(self, connection: Connection, limit: anyio.CancelScope, timeout: float) -> None:
        self._connection = connection
        self._limit = limit
        self._timeout = timeout
        self._has_asked = False

    async def perform(self, step: Step[Any]) -> Any:
        if isinstance(step, Ask) and not self._has_asked:
            self._connection.gate.hold()
            self._has_asked = True
            self._limit.deadline = self._connection.free_at() + self._timeout
        return await _perform(self._connection, step)

    def break_off(self, error: BaseException) -> None:
        if not self._has_asked:
            return
        if isinstance(error, KafkaError):
            # A copy: an error that is raised collects a traceback with its frames.
            self._connection.close(copy.copy(error))
        elif isinstance(error, CredentialsChanged):
            # The requests in flight were answered before the first answer of the exchange.
            self._connection.close()
        elif isinstance(error, Exception):
            why = str(error) if isinstance(error, TimeoutError) else type(error).__name__
            text = f"the connection was closed in the middle of an exchange: {why}"
            self._connection.close(BrokerUnavailableError(text, broker=self._connection.broker))
        else:  # cancelled
            self._connection.close()

    def end(self) -> None:
        if self._has_asked:
            self._connection.gate.release()
            if not self._connection.closed:
                self._connection.authenticating = ""


def _limit(timeout: float) -> anyio.CancelScope:
    return anyio.CancelScope(deadline=anyio.current_time() + timeout)


async def _run(
    dialogue: Dialogue[T], perform: Callable[[Step[Any]], Awaitable[Any]], limit: anyio.CancelScope
) -> T:
    step: Step[Any] | None = None
    with contextlib.closing(dialogue):
        try:
            with limit:
                step = next(dialogue)
                while True:
                    try:
                        result = await perform(step)
                    except Exception as error:  # noqa: BLE001  # the dialogue decides on the error
                        step = dialogue.throw(error)
                    else:
                        try:
                            step = dialogue.send(result)
                        finally:
                            del result  # It may be a secret, and an error that is raised keeps this frame.
        except StopIteration as done:
            final: T = done.value
            return final
    raise TimeoutError("" if step is None else step.unfinished)


async def _perform(connection: Connection, step: Step[Any]) -> Any:
    match step:
        case Ask():
            # The whole dialogue has a time limit.
            return await ask(connection, step, timeout=math.inf)
        case Compute():
            return await in_a_thread(step.function)
        case Await():
            return await _in_a_task(step.function)
        case Now():
            return asyncio.get_running_loop().time()
    raise TypeError(f"a dialogue yielded {type(step).__name__}, which is not a step")


async def _in_a_task(function: Callable[[], Awaitable[R]]) -> R:
    """Await code of the user in a separate task.

    A coroutine that suppresses its cancellation, or raises CancelledError itself, has no effect on the task that opens the
    connection.
    """

    async def call() -> R:
        return await function()

    task = asyncio.create_task(call(), name="aioproducer dialogue")
    # Also where this is cancelled in the turn in which the task ends.
    task.add_done_callback(_retrieve_exception)
    try:
        await asyncio.wait([task])
    finally:
        task.cancel()
    if task.cancelled():
        raise RuntimeError("the coroutine was cancelled")
    return task.result()


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    # Otherwise the loop logs an exception that nothing waits for.
    if not task.cancelled():
        task.exception()

"""Calls of functions of the user that give secrets and tokens: whatever they raise becomes words without the secret."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from aioproducer._callers.own_thread import OneThread
from aioproducer._net.connecting.conversing import in_one_thread
from aioproducer.auth.failing import NoTokenError
from aioproducer.config import UnresolvedError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["LONGEST_CALL", "Given", "UserFunctions", "call_in_one_thread"]

LONGEST_CALL = 10.0


@attrs.frozen
class Given:
    """The result of a function, or the reason for which there is none. The result may be secret, so the repr hides it.

    `is_final`: the next call fails for the same reason, until a setting is changed.
    """

    value: Any = attrs.field(default=None, repr=False)
    problem: str = ""
    is_final: bool = False


class UserFunctions:
    """Calls functions of the user that give secrets, each for at most `LONGEST_CALL` seconds.

    A coroutine function is called on the event loop. Any other function may block: it is called in a thread, one at a time.
    """

    def __init__(self) -> None:
        self._thread = OneThread()
        # The time limit of a call begins after the calls before it.
        self._turn = asyncio.Lock()

    async def call(self, function: Callable[[], Any]) -> Given:
        """The result of a function, or of the awaitable that it returns."""
        if _is_coroutine_function(function):
            return await _limited(_awaited(function))
        async with self._turn:
            return await _limited(self._in_the_thread(function))

    async def _in_the_thread(self, function: Callable[[], Any]) -> Given:
        given = await call_in_one_thread(self._thread, function)
        if not inspect.isawaitable(given.value):
            return given
        return await _awaited(lambda: given.value)


async def _limited(call: Coroutine[Any, Any, Given]) -> Given:
    """The result of a call of a function of the user.

    It runs in a separate task: one that suppresses its cancellation is left alone, and one that raises CancelledError
    cancels nothing else.
    """
    task = asyncio.create_task(call, name="aioproducer credentials")
    try:
        await asyncio.wait([task], timeout=LONGEST_CALL)
    finally:
        if not task.done():
            task.cancel()
    if not task.done():
        return Given(problem=f"gave nothing within {LONGEST_CALL:g} s")
    # A function may cancel the task that it runs in, and return all the same.
    return Given(problem="was cancelled") if task.cancelled() else task.result()


async def call_in_one_thread(thread: OneThread, function: Callable[[], Any]) -> Given:
    """Call a function that may block, behind the call before it in this thread."""
    return await in_one_thread(thread, partial(_called, function))


def _is_coroutine_function(function: Callable[[], Any]) -> bool:
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


async def _awaited(function: Callable[[], Any]) -> Given:
    try:
        given = function()
        return Given(await given if inspect.isawaitable(given) else given)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001  # its text and its frames may have the secret
        return _raised(error)


def _called(function: Callable[[], Any]) -> Given:
    try:
        return Given(function())
    except BaseException as error:  # noqa: BLE001  # in a thread, so nothing else handles it
        return _raised(error)


def _raised(error: BaseException) -> Given:
    # The texts of these have no secret.
    is_told = isinstance(error, NoTokenError | UnresolvedError)
    return Given(problem=str(error) if is_told else f"raised {type(error).__name__}")

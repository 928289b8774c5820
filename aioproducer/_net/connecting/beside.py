"""Attempts beside each other: the next one begins where those before it have failed or take long, and the first success counts."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

__all__ = ["first_success", "give_up"]

T = TypeVar("T")
# As long as an authentication without an answer holds up the others that have to wait for their turn.
_PATIENCE: Final = 3.0


async def first_success(
    attempts: Iterable[Callable[[], Coroutine[Any, Any, T]]],
    setup_timeout: float,
    failed: Callable[[Exception], bool],
    discard: Callable[[T], None],
) -> T | None:
    """The result of the first attempt that succeeds; None if none does.

    The next attempt begins when one has failed, or after three seconds, or `setup_timeout` if that is less, beside those that go
    on. `failed` gets each error: False where no further attempt may begin, also if others that have begun may succeed. Attempts
    that go on behind a success are cancelled; `discard` gets what they give all the same.
    """
    running: set[asyncio.Task[T]] = set()
    waiting = list(attempts)
    if len(waiting) == 1:
        return await _only(waiting[0], failed)
    try:
        while waiting or running:
            seconds = None
            if waiting:
                running.add(asyncio.create_task(waiting.pop(0)()))
                seconds = min(_PATIENCE, setup_timeout) if waiting else None
            done, running = await asyncio.wait(running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            results = [task.result() for task in done if task.exception() is None]
            if results:
                for other in results[1:]:
                    discard(other)
                return results[0]
            for task in done:
                error = task.exception()
                if not isinstance(error, Exception):
                    task.result()  # raises it
                elif not failed(error):
                    waiting.clear()
        return None
    finally:
        for task in running:
            give_up(task, discard)


def give_up(task: asyncio.Task[T], discard: Callable[[T], None]) -> None:
    """Cancel an attempt. `discard` gets its result if it has succeeded all the same."""
    task.add_done_callback(partial(_discarded, discard))
    task.cancel()


async def _only(
    attempt: Callable[[], Coroutine[Any, Any, T]], failed: Callable[[Exception], bool]
) -> T | None:
    try:
        return await attempt()
    except Exception as error:  # noqa: BLE001  # as with several
        failed(error)
    return None


def _discarded(discard: Callable[[T], None], task: asyncio.Task[T]) -> None:
    if not task.cancelled() and task.exception() is None:
        discard(task.result())

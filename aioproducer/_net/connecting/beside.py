"""Attempts beside each other: the next one begins where those before it have failed or take long, and the first success counts."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

__all__ = ["Rounds", "first_success", "give_up"]

T = TypeVar("T")
K = TypeVar("K")
Attempt: TypeAlias = "Callable[[], Coroutine[Any, Any, T]]"
# As long as an authentication without an answer holds up the others that have to wait for their turn.
_PATIENCE: Final = 3.0
# Seconds until an attempt that has failed is repeated, at least: a setup timeout may be some milliseconds.
_LEAST_PAUSE: Final = 1.0


async def first_success(
    attempts: Iterable[Attempt[T]],
    setup_timeout: float,
    failed: Callable[[Exception], bool],
    discard: Callable[[T], None],
) -> T | None:
    """The result of the first attempt that succeeds; None if none does.

    The next attempt begins when one has failed, or after three seconds, or `setup_timeout` if that is less, beside those that go
    on. One that has failed is repeated so much later, as long as one that has not yet ended goes on: its broker may be well
    again. `failed` gets each error: False where none of those that wait for their beginning may begin; the one that failed is
    repeated all the same. Attempts that go on behind a success are cancelled; `discard` gets what they give all the same.
    """
    patience = min(_PATIENCE, setup_timeout)
    waiting: deque[Attempt[T]] = deque(attempts)
    if len(waiting) == 1:
        return await _only(waiting[0], failed)
    loop = asyncio.get_running_loop()
    under_way: _UnderWay[Attempt[T], T] = _UnderWay(discard)
    # Those whose first try has not ended.
    unended = set(waiting)
    failures: deque[tuple[float, Attempt[T]]] = deque()
    try:
        while unended:
            if waiting:
                under_way.begin(waiting[0], waiting.popleft())
            elif failures and failures[0][0] <= loop.time():
                under_way.begin(failures[0][1], failures.popleft()[1])
            repeating = max(0.0, failures[0][0] - loop.time()) if failures else None
            made, ended = await under_way.ended(patience if waiting else repeating)
            if made is not None:
                return made
            for attempt, error in ended:
                unended.discard(attempt)
                if not failed(error):
                    unended.difference_update(waiting)
                    waiting.clear()
                failures.append((loop.time() + max(patience, _LEAST_PAUSE), attempt))
        return None
    finally:
        under_way.give_up()


class Rounds(Generic[K, T]):
    """Attempts in rounds: one that takes long goes on beside the next round, which may have other attempts, or the same anew.

    `unexpected` gets the result of an attempt that succeeds while no round is under way.
    """

    def __init__(self, discard: Callable[[T], None], unexpected: Callable[[T], None]) -> None:
        self._discard = discard
        self._unexpected = unexpected
        self._under_way = _UnderWay[K, T](discard)
        # Rounds that are under way: one that was cancelled may end behind the beginning of the next one.
        self._rounds = 0

    async def first_success(
        self,
        attempts: Mapping[K, Attempt[T]],
        setup_timeout: float,
        failed: Callable[[Exception], bool],
        *,
        has_others: bool,
    ) -> T | None:
        """The result of the first attempt of this round, or of those before it, that succeeds; None where the round is over.

        The next attempt begins as in the function of this name. When all have begun, and one has failed, or the next round
        `has_others`, those that go on have three seconds each, or `setup_timeout` if that is less.
        """
        self._rounds += 1
        try:
            return await self._round(
                deque(attempts.items()), min(_PATIENCE, setup_timeout), failed, has_others
            )
        finally:
            self._rounds -= 1
            for task in self._under_way.tasks():
                self._note_end(task)

    async def _round(
        self,
        waiting: deque[tuple[K, Attempt[T]]],
        patience: float,
        failed: Callable[[Exception], bool],
        has_others: bool,
    ) -> T | None:
        under_way = self._under_way
        # A round that was given up begins nothing more.
        while under_way is self._under_way and (waiting or under_way):
            if waiting:
                task = under_way.begin(*waiting.popleft())
                task.add_done_callback(self._note_end)
            seconds = patience if waiting else under_way.rest_of(patience) if has_others else None
            made, ended = await under_way.ended(seconds)
            if made is not None:
                self.give_up()
                return made
            for _, error in ended:
                has_others = True
                if not failed(error):
                    waiting.clear()
            if has_others and not waiting and under_way.rest_of(patience) <= 0:
                break
        return None

    def _note_end(self, task: asyncio.Task[T]) -> None:
        """A round that is under way sees the end itself. Without one a failure is forgotten: it would be told much later."""
        if self._rounds == 0 and (made := self._under_way.made_by(task)) is not None:
            self._unexpected(made)

    def under_way(self) -> set[K]:
        """The attempts that go on."""
        return self._under_way.keys()

    def give_up(self) -> None:
        """Cancel the attempts that go on, and end their round."""
        under_way, self._under_way = self._under_way, _UnderWay[K, T](self._discard)
        under_way.give_up()


class _UnderWay(Generic[K, T]):
    """The attempts that go on, each with a key of its caller."""

    def __init__(self, discard: Callable[[T], None]) -> None:
        self._discard = discard
        self._tasks: dict[asyncio.Task[T], tuple[K, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def begin(self, key: K, attempt: Attempt[T]) -> asyncio.Task[T]:
        task = asyncio.create_task(attempt(), name="aioproducer attempt")
        self._tasks[task] = key, asyncio.get_running_loop().time()
        return task

    def keys(self) -> set[K]:
        return {key for key, _ in self._tasks.values()}

    def tasks(self) -> list[asyncio.Task[T]]:
        return list(self._tasks)

    def made_by(self, task: asyncio.Task[T]) -> T | None:
        """The result of this one, if it has ended. It is forgotten then."""
        if task not in self._tasks or not task.done():
            return None
        del self._tasks[task]
        return None if task.cancelled() or task.exception() is not None else task.result()

    def rest_of(self, patience: float) -> float:
        """The seconds until the newest one has had so many."""
        newest = max((began for _, began in self._tasks.values()), default=0.0)
        return max(0.0, newest + patience - asyncio.get_running_loop().time())

    async def ended(self, seconds: float | None) -> tuple[T | None, list[tuple[K, Exception]]]:
        """A result, or the attempts that have failed within so many seconds."""
        done, _ = await asyncio.wait(self._tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        ended = [(task, self._tasks.pop(task)[0]) for task in done if task in self._tasks]
        made = [task.result() for task, _ in ended if task.exception() is None]
        for other in made[1:]:
            self._discard(other)
        if made:
            return made[0], []
        return None, [(key, _error_of(task)) for task, key in ended]

    def give_up(self) -> None:
        """Cancel all."""
        tasks, self._tasks = self._tasks, {}
        for task in tasks:
            give_up(task, self._discard)


def give_up(task: asyncio.Task[T], discard: Callable[[T], None]) -> None:
    """Cancel an attempt. `discard` gets its result if it has succeeded all the same."""
    task.add_done_callback(partial(_discarded, discard))
    task.cancel()


async def _only(attempt: Attempt[T], failed: Callable[[Exception], bool]) -> T | None:
    try:
        return await attempt()
    except Exception as error:  # noqa: BLE001  # as with several
        failed(error)
    return None


def _error_of(task: asyncio.Task[Any]) -> Exception:
    if isinstance(error := task.exception(), Exception):
        return error
    task.result()  # raises it
    raise AssertionError("it has failed")  # for type checkers


def _discarded(discard: Callable[[T], None], task: asyncio.Task[T]) -> None:
    if not task.cancelled() and task.exception() is None:
        discard(task.result())

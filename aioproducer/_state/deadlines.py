"""Deadlines in order: a heap in which nothing has to be found to be removed."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

from aioproducer._state.cluster.facts import OUT_OF_MEMORY

T = TypeVar("T")


TIDY_FROM = 64


class Deadlines(Generic[T]):
    """Things with a time at which they are due. What is no longer wanted is ignored when its time comes.

    Told often enough that something is `over`, the heap is made anew without all that is, so that it holds at most
    about twice of what is still wanted: an entry keeps its thing alive.
    """

    __slots__ = ("_count", "_heap", "_over")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._count = 0
        self._over = 0

    def over(self, is_over: Callable[[T], bool], entries: int = 1) -> None:
        """One of the things, with so many entries, is no longer wanted; `is_over` tells which are."""
        self._over += entries
        if self._over > TIDY_FROM and self._over * 2 > len(self._heap):
            # Without memory for it, the next time.
            with suppress(*OUT_OF_MEMORY):
                left = [entry for entry in self._heap if not is_over(entry[2])]
                heapq.heapify(left)
                self._heap, self._over = left, 0

    def add(self, due: float, thing: T) -> None:
        """`thing` is due at `due`."""
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, thing))

    def earliest(self) -> float | None:
        """The first time at which something is due."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Iterator[T]:
        """Everything that is due by now, earliest first."""
        while self._heap and self._heap[0][0] <= now:
            yield heapq.heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)

"""Deadlines in order: a heap whose entries are never searched for."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

from aioproducer._state.cluster.facts import OUT_OF_MEMORY

T = TypeVar("T")


TIDY_FROM = 64


class Deadlines(Generic[T]):
    """Objects with a due time. Objects that are no longer wanted are ignored at their time.

    When enough objects are reported as `over`, the heap is rebuilt without them. So it holds at most about twice the
    wanted entries: an entry keeps its object alive.
    """

    __slots__ = ("_count", "_heap", "_over")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._count = 0
        self._over = 0

    def over(self, is_over: Callable[[T], bool], entries: int = 1) -> None:
        """One of the objects, with so many entries, is no longer wanted; `is_over` recognizes these."""
        self._over += entries
        if self._over > TIDY_FROM and self._over * 2 > len(self._heap):
            # Without memory for it, the next call rebuilds it.
            with suppress(*OUT_OF_MEMORY):
                left = [entry for entry in self._heap if not is_over(entry[2])]
                heapq.heapify(left)
                self._heap, self._over = left, 0

    def add(self, due: float, thing: T) -> None:
        """`thing` is due at `due`."""
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, thing))

    def earliest(self) -> float | None:
        """The first due time."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Iterator[T]:
        """All due objects, earliest first."""
        while self._heap and self._heap[0][0] <= now:
            yield heapq.heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)

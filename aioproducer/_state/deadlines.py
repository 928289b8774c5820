"""Deadlines in order: a heap in which nothing has to be found to be removed."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Things with a time at which they are due. What is no longer wanted is simply ignored when its time comes."""

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._count = 0

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

"""Pending deliveries, each with the data that is needed when it has its outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from aioproducer import Delivery, Outcome

T = TypeVar("T")

LEAST = 1000


class Watch(Generic[T]):
    """Checks the deliveries when their number is twice the number that was left the last time.

    So each costs little, the memory is in proportion to the records in flight, and a late one delays no other.
    """

    def __init__(self, settled: Callable[[list[tuple[T, Delivery]]], object]) -> None:
        self._settled = settled
        self._open: list[tuple[T, Delivery]] = []
        self._enough = LEAST

    def add(self, what: T, delivery: Delivery) -> None:
        """Add a delivery."""
        self._open.append((what, delivery))
        if len(self._open) >= self._enough:
            self.look()

    def look(self) -> None:
        """Report the deliveries that have their outcome."""
        pending = Outcome.PENDING
        left: list[tuple[T, Delivery]] = []
        arrived: list[tuple[T, Delivery]] = []
        for entry in self._open:
            (left if entry[1].outcome is pending else arrived).append(entry)
        self._open = left
        self._enough = max(LEAST, 2 * len(left))
        self._settled(arrived)

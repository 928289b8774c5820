"""Pending deliveries, each with the data that is needed when it has its outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from typing_extensions import TypeVar as DefaultTypeVar

from aioproducer import Delivery, Outcome
from aioproducer.outlets import SentRecord

T = TypeVar("T")
# A delivery, or a record that may be set aside.
Sent = Delivery | SentRecord
D = DefaultTypeVar("D", bound=Sent, default=Delivery)

LEAST = 1000


class Watch(Generic[T, D]):
    """Checks the deliveries when their number is twice the number that was left the last time.

    So each costs little, the memory is in proportion to the records in flight, and a late one delays no other.
    """

    def __init__(self, settled: Callable[[list[tuple[T, D]]], object]) -> None:
        self._report = settled
        self._open: list[tuple[T, D]] = []
        self._enough = LEAST

    def add(self, what: T, delivery: D) -> None:
        """Add a delivery."""
        self._open.append((what, delivery))
        if len(self._open) >= self._enough:
            self.look()

    def look(self) -> None:
        """Report the deliveries that have their outcome."""
        pending = Outcome.PENDING
        left: list[tuple[T, D]] = []
        arrived: list[tuple[T, D]] = []
        for entry in self._open:
            (left if entry[1].outcome is pending else arrived).append(entry)
        self._open = left
        self._enough = max(LEAST, 2 * len(left))
        self._report(arrived)

    async def settled(self) -> None:
        """Wait until all of them have their outcome."""
        for _, delivery in list(self._open):
            await delivery.wait()

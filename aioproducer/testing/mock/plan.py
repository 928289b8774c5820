"""What a test has ordered of a `MockProducer`: completion, topics, and failures of the records to come."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from aioproducer.errors import KafkaError

E = TypeVar("E", bound=Exception)


@attrs.define
class Script(Generic[E]):
    """One order; `left` None: it stands until it is cleared."""

    error: E
    topic: str | None
    left: int | None


class Scripts(Generic[E]):
    """Orders, oldest first."""

    def __init__(self) -> None:
        self._orders: list[Script[E]] = []

    def add(self, error: E, topic: str | None, times: int | None) -> None:
        """Order a failure."""
        if times is not None and times < 1:
            raise ValueError(f"times must be at least 1, or None for all that follow, not {times!r}")
        self._orders.append(Script(error, topic, times))

    def take(self, topic: str | None = None) -> E | None:
        """The failure that the next one of this topic shall have."""
        for order in self._orders:
            if order.topic in (None, topic):
                if order.left is not None:
                    order.left -= 1
                self._orders = [each for each in self._orders if each.left != 0]
                return order.error
        return None

    def clear(self) -> None:
        """Forget all orders."""
        self._orders = []


@attrs.frozen
class LostAnswer:
    """One commit, whose outcome is not told to the first `times` calls."""

    committed: bool
    times: int


@attrs.define
class Plan:
    """The orders of one test. Topics that are not named in `partitions` have as many of them as `others` says."""

    auto_complete: bool = True
    partitions: dict[str, int] = attrs.Factory(dict)
    others: int = 1
    refusals: Scripts[KafkaError] = attrs.Factory(Scripts)
    failures: Scripts[Exception] = attrs.Factory(Scripts)
    commit_refusals: Scripts[KafkaError] = attrs.Factory(Scripts)
    offset_refusals: Scripts[KafkaError] = attrs.Factory(Scripts)
    """Their "topics" are groups."""
    lost_answers: list[LostAnswer] = attrs.Factory(list)

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic has."""
        return self.partitions.get(topic, self.others)

    def take_lost_answer(self) -> LostAnswer | None:
        """The order for the commit that happens now, if there is one."""
        return self.lost_answers.pop(0) if self.lost_answers else None

    def clear(self) -> None:
        """Forget the failures that were ordered."""
        for scripts in (self.refusals, self.failures, self.commit_refusals, self.offset_refusals):
            scripts.clear()
        self.lost_answers.clear()

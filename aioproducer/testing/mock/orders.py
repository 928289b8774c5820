"""The failures that a test has ordered, oldest first."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.errors import DeliveryError, KafkaError, RecordTooLargeError, RefusedAsTooLargeError
from aioproducer.outcome import Outcome

E = TypeVar("E")


@attrs.define
class Order(Generic[E]):
    """What happens, to which topic or group (None: any), and how often (None: until it is cleared)."""

    what: E
    name: str | None
    left: int | None


class Queue(list[Order[E]]):
    """Orders of one kind."""

    def order(self, what: E, name: str | None, times: int | None) -> None:
        """Add an order."""
        if times is not None and times < 1:
            raise ValueError(f"times must be at least 1, or None for all that follow, not {times!r}")
        self.append(Order(what, name, times))

    def next_for(self, name: str | None = None) -> Order[E] | None:
        """The order that is carried out next for this topic or group."""
        return next((order for order in self if order.name in (None, name)), None)

    def take(self, name: str | None = None) -> E | None:
        """Carry out the next order for this topic or group, if there is one."""
        order = self.next_for(name)
        if order is None:
            return None
        if order.left is not None:
            order.left -= 1
            if not order.left:
                self.remove(order)
        return order.what


@attrs.define(eq=False)
class Orders:
    """The orders of one test."""

    refusals: Queue[KafkaError] = attrs.Factory(Queue)
    failures: Queue[Exception] = attrs.Factory(Queue)
    commits: Queue[KafkaError] = attrs.Factory(Queue)
    offsets: Queue[KafkaError] = attrs.Factory(Queue)
    # Of commits whose answer is lost: whether they are carried out.
    lost_answers: Queue[bool] = attrs.Factory(Queue)

    def clear(self) -> None:
        """Forget all orders."""
        for queue in (self.refusals, self.failures, self.commits, self.offsets, self.lost_answers):
            queue.clear()


def check_failure(error: object) -> None:
    """Refuse what no delivery can end with."""
    if not isinstance(error, Exception):
        raise TypeError(f"a delivery ends with an exception, not {type(error).__name__}")
    outcome = getattr(error, "outcome", Outcome.NOT_WRITTEN)
    if outcome not in (Outcome.NOT_WRITTEN, Outcome.UNKNOWN):
        raise ValueError(f"a record that failed is NOT_WRITTEN or UNKNOWN, not {outcome}")


def delivery_error(error: Exception, topic: str, partition: int) -> DeliveryError:
    """The same as an error of a delivery: what is none becomes the cause of one."""
    if isinstance(error, DeliveryError):
        return error
    if isinstance(error, RecordTooLargeError):
        # The producer accepted the record: the broker refuses it.
        code = ErrorCode.MESSAGE_TOO_LARGE
        limit = "max.message.bytes"
        return RefusedAsTooLargeError(
            size=error.size,
            setting=limit,
            code=code,
            name=code.name,
            topic=topic,
            partition=partition,
            attempts=1,
        )
    outcome = getattr(error, "outcome", Outcome.NOT_WRITTEN)
    retriable = getattr(error, "retriable", None)
    return DeliveryError(
        topic=topic, partition=partition, outcome=outcome, retriable=retriable, attempts=1, cause=error
    )

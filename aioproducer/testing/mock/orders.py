"""The failures that a test has ordered: one table, oldest first."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.errors import DeliveryError, KafkaError, RecordTooLargeError, RefusedAsTooLargeError
from aioproducer.outcome import Outcome

Kind = Literal["send", "delivery", "commit", "commit answer", "offsets"]


@attrs.define
class Order:
    """One failure. `name`: the topic or group that it applies to (None: any); `left`: how often (None: until `clear()`)."""

    kind: Kind
    what: Any
    name: str | None
    left: int | None


class Orders(list[Order]):
    """The orders of one test."""

    def add(self, kind: Kind, what: Any, name: str | None, times: int | None) -> None:
        """Add an order."""
        if times is not None and times < 1:
            raise ValueError(f"times must be at least 1, or None for all that follow, not {times!r}")
        self.append(Order(kind, what, name, times))

    def next(self, kind: Kind, name: str | None = None) -> Order | None:
        """The order that applies next to this topic or group."""
        return next((order for order in self if order.kind == kind and order.name in (None, name)), None)

    def take(self, kind: Kind, name: str | None = None) -> Any:
        """Use the next order once: the failure, or None."""
        order = self.next(kind, name)
        if order is None:
            return None
        if order.left is not None:
            order.left -= 1
            if not order.left:
                self.remove(order)
        return order.what


def check_error(error: object, ends: str) -> None:
    """Refuse an error that the producer never raises there."""
    if not isinstance(error, KafkaError):
        raise TypeError(f"{ends} only with a KafkaError, not {type(error).__name__}")


def check_failure(error: object) -> None:
    """Refuse an error that no delivery ends with."""
    if not isinstance(error, Exception):
        raise TypeError(f"a delivery ends with an exception, not {type(error).__name__}")
    outcome = getattr(error, "outcome", Outcome.NOT_WRITTEN)
    if outcome not in (Outcome.NOT_WRITTEN, Outcome.UNKNOWN):
        raise ValueError(f"a record that failed is NOT_WRITTEN or UNKNOWN, not {outcome}")


def delivery_error(error: Exception, topic: str, partition: int) -> DeliveryError:
    """The error of a delivery. Any other error becomes the cause of one."""
    if isinstance(error, DeliveryError):
        return error
    if isinstance(error, RecordTooLargeError):
        # The producer accepted the record: the broker refuses it.
        return RefusedAsTooLargeError(
            size=error.size, setting="max.message.bytes", code=ErrorCode.MESSAGE_TOO_LARGE,
            name=ErrorCode.MESSAGE_TOO_LARGE.name, topic=topic, partition=partition, attempts=1,
        )  # fmt: skip
    return DeliveryError(
        topic=topic, partition=partition, outcome=getattr(error, "outcome", Outcome.NOT_WRITTEN),
        retriable=getattr(error, "retriable", None), attempts=1, cause=error,
    )  # fmt: skip

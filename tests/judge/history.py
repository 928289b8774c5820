"""The input of the judge: the sent records, their reported outcomes, and the log afterwards.

Records are known by the number that their value begins with: the order of the calls. A digest stands for the rest of
the record, so that millions of records can be judged.
"""

from __future__ import annotations

import hashlib
import marshal
import math
import struct
from collections.abc import Iterable, Sequence

import attrs

from aioproducer import Delivery, Outcome
from aioproducer.errors import KafkaError

_NUMBER = struct.Struct(">q")
NO_NUMBER = -1

Headers = Sequence[tuple[str, bytes | None]]


@attrs.frozen
class Sent:
    """One record of the producer's input, with its reported outcome."""

    number: int
    digest: bytes
    topic: str
    partition: int | None
    outcome: Outcome
    offset: int = -1
    due_at: float = math.inf
    """When its outcome had to be known."""
    resolved_at: float = -math.inf
    on_wire: bool = True
    """Were bytes of it given to a transport?"""
    error: str = ""


@attrs.frozen
class Found:
    """One record of a log. `number` is `NO_NUMBER` where its value does not begin with one."""

    topic: str
    partition: int
    offset: int
    number: int
    digest: bytes


def value_of(number: int, filling: bytes = b"") -> bytes:
    """A value by which the record is known again."""
    return _NUMBER.pack(number) + filling


def number_of(value: bytes | None) -> int:
    """The number that a value begins with."""
    return _NUMBER.unpack_from(value)[0] if value is not None and len(value) >= _NUMBER.size else NO_NUMBER


def digest_of(key: bytes | None, value: bytes | None, headers: Headers, timestamp: int | None) -> bytes:
    """Stands for all that was sent; where the producer chose the timestamp it is None on both sides."""
    # Version 2 of marshal: equal values give equal bytes, regardless of other references to them.
    content = marshal.dumps((key, value, tuple(headers), timestamp), 2)
    return hashlib.blake2b(content, digest_size=8).digest()


def found(
    topic: str,
    partition: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    timestamp: int | None,
) -> Found:
    """A record as a reader gives it."""
    return Found(topic, partition, offset, number_of(value), digest_of(key, value, headers, timestamp))


def told(
    number: int,
    digest: bytes,
    delivery: Delivery,
    *,
    due_at: float = math.inf,
    resolved_at: float = -math.inf,
) -> Sent:
    """A record that was accepted, by its delivery."""
    outcome = delivery.outcome
    error = delivery.exception() if outcome in (Outcome.NOT_WRITTEN, Outcome.UNKNOWN) else None
    return Sent(
        number,
        digest,
        delivery.topic,
        delivery.partition,
        outcome,
        delivery.result().offset if outcome is Outcome.ACKED else -1,
        due_at,
        resolved_at,
        delivery.timings.written is not None,
        str(error) if error is not None else "",
    )


def refused(
    number: int,
    digest: bytes,
    topic: str,
    error: KafkaError,
    *,
    due_at: float = math.inf,
    resolved_at: float = -math.inf,
) -> Sent:
    """A record that its call refused or lost; bytes of it were given to a transport where the outcome is unknown."""
    on_wire = error.outcome is Outcome.UNKNOWN
    return Sent(number, digest, topic, None, error.outcome, -1, due_at, resolved_at, on_wire, str(error))


def counts(history: Iterable[Sent]) -> dict[Outcome, int]:
    """How many records had which outcome."""
    numbers = dict.fromkeys(Outcome, 0)
    for record in history:
        numbers[record.outcome] += 1
    return numbers

"""The reports that listeners get: one per batch with an outcome, one per change of a connection.

A listener is an object with any of `on_batch(report)` and `on_connection(report)`, given to the setting `listeners`. Both are
called in the event loop, between other work, and cannot wait. A listener that raises is logged and changes nothing else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aioproducer.errors import KafkaError
from aioproducer.outcome import Outcome

__all__ = ["BatchReport", "ConnectionReport"]


class BatchReport(NamedTuple):
    """A batch has its outcome. Records that end before their batch, one by one, have a report of their own.

    `records` is the number of records with this outcome; `bytes` and `compressed_bytes` are the size of the batch before and
    after compression. `broker` is the id of the broker of the newest attempt as text, as in `ConnectionStats`. Times are in
    seconds of the loop's clock and None where it never came to that; `wall_ms` is the time of the outcome in milliseconds
    since the epoch. `contexts` holds the tokens of a tracer.
    """

    topic: str
    partition: int
    records: int
    bytes: int
    compressed_bytes: int
    outcome: Outcome
    error: KafkaError | None
    attempts: int
    base_offset: int
    broker: str | None
    address: str | None
    opened_at: float
    drained_at: float | None
    written_at: float | None
    answered_at: float | None
    wall_ms: int
    contexts: tuple[Any, ...] = ()


class ConnectionReport(NamedTuple):
    """A connection has another state; `broker`, `address` and `state` are as in `ConnectionStats`."""

    broker: str
    address: str | None
    state: str
    error: BaseException | None = None

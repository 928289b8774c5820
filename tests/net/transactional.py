"""Shared parts of transaction tests: a cluster of either version, and the records that a reader of it sees."""

from __future__ import annotations

import time
from typing import Any

from aioproducer import Delivery, Outcome, Producer
from aioproducer._state.transactions.table import State
from aioproducer.testing import EmbeddedKafka
from aioproducer.testing.broker.history import SeenRequest
from tests.net.support import engine, until

NAME = "orders"
END_TXN, INIT_PRODUCER_ID = "EndTxn", "InitProducerId"
PAST_ITS_TIME = 61.0
"""Seconds after which the coordinator has ended a transaction: `transaction_timeout_ms` is 60,000 by default."""


class MovableClock:
    """The time of a cluster or of an event loop: real time, plus the seconds that a test has skipped."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return time.monotonic() + self._skipped

    def skip(self, seconds: float) -> None:
        """Move the clock forward."""
        self._skipped += seconds


def seen(kafka: EmbeddedKafka, partition: int | None = None, topic: str = "one") -> list[bytes | None]:
    """The values that a reader of committed records finds."""
    return [record.value for record in kafka.records(topic, partition)]


def written(kafka: EmbeddedKafka, partition: int | None = None, topic: str = "one") -> list[bytes | None]:
    """The values in the log, for any outcome of their transactions."""
    return [record.value for record in kafka.records(topic, partition, "read_uncommitted")]


def state(producer: Producer[Any, Any]) -> State:
    """The state of its transactions."""
    transactions = engine(producer).transactions
    assert transactions is not None
    return transactions.table.state


def asked(kafka: EmbeddedKafka, api: str) -> list[SeenRequest]:
    """The requests of this kind that brokers received."""
    return [one for one in kafka.requests if one.api == api]


async def ended_by_time(kafka: EmbeddedKafka) -> None:
    """The cluster's clock moves on by more than a transaction may last, and the coordinator ends open ones."""
    clock = kafka._cluster.clock
    assert isinstance(clock, MovableClock)
    clock.skip(PAST_ITS_TIME)
    await until(lambda: (view := kafka.transaction(NAME)) is None or view.state == "CompleteAbort")


async def put(
    producer: Producer[Any, Any], *values: bytes, partition: int = 0, topic: str = "one"
) -> list[Delivery]:
    """Send these in the open transaction."""
    return [await producer.send(topic, value, partition=partition) for value in values]


def current_outcomes(deliveries: list[Delivery]) -> set[Outcome]:
    """The current outcomes."""
    return {one.outcome for one in deliveries}

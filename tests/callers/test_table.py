"""No public call is forgotten: each has its place in the table of calls with arguments that lie."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer import BatchDelivery, Delivery, Producer, Scope, Transaction, TransactionHandle
from aioproducer._core import Sending
from aioproducer.outbox import PostgresStore, Relay, SqliteStore
from aioproducer.outlets import Checkpoint, DeadLetters, SentRecord
from aioproducer.registry import AvroSerializer, JsonSerializer, ProtobufSerializer, Registry
from aioproducer.testing import EmbeddedKafka, MockProducer
from aioproducer.testing.mock.brokers import MockTransaction, MockTransactionHandle
from tests.callers.parts import CHECKPOINT, LETTERS, REGISTRY, SENT, SERIALIZER, STORE
from tests.callers.table import (
    ABOUT_RECORDS,
    BATCH_DELIVERY,
    DELIVERY,
    HANDLE,
    KAFKA,
    LOOKING,
    OF_THE_MOCK,
    SCOPE,
    SENDING,
    TRANSACTING,
    TRANSACTION,
)

OF_A_PRODUCER = {*ABOUT_RECORDS, *LOOKING, *TRANSACTING}
# Tried by tests of their own: after them nothing more can be tried.
ENDS = {"close": "test_life.py", "fence_me": "test_life.py", "wait_pending": "test_life.py"}
ENDS_OF_KAFKA = {"start", "stop"}
# For other parts of the library.
INNER: dict[Any, set[str]] = {
    DeadLetters: {"begin", "count", "send_by", "send_nowait_by", "takes"},
    SentRecord: {
        "accepted", "fate", "placed", "ready", "see", "send", "send_nowait", "set_aside", "spares", "when_settled",
        "withdraw",
    },
    Registry: {"find", "schema_by_id", "serving"},
    AvroSerializer: {"for_part", "trouble_of_prepare"},
}  # fmt: skip

TABLES: dict[Any, set[str]] = {
    Producer: OF_A_PRODUCER | {"close"},
    MockProducer: OF_A_PRODUCER | {*OF_THE_MOCK, *ENDS},
    Delivery: {*DELIVERY},
    BatchDelivery: {*BATCH_DELIVERY},
    Sending: {*SENDING},
    Scope: {*SCOPE},
    Transaction: {*TRANSACTION},
    MockTransaction: {*TRANSACTION},
    TransactionHandle: {*HANDLE},
    MockTransactionHandle: {*HANDLE},
    EmbeddedKafka: {*KAFKA} | ENDS_OF_KAFKA,
    DeadLetters: {*LETTERS} | INNER[DeadLetters],
    SentRecord: {*SENT} | INNER[SentRecord],
    Checkpoint: {*CHECKPOINT},
    Registry: {*REGISTRY, "close"} | INNER[Registry],
    AvroSerializer: {*SERIALIZER, "close"} | INNER[AvroSerializer],
    JsonSerializer: {*SERIALIZER, "close"} | INNER[AvroSerializer],
    ProtobufSerializer: {*SERIALIZER, "close"} | INNER[AvroSerializer],
    # `add()` has a function of its own; the relay makes all of these calls.
    SqliteStore: {*STORE, "add"},
    PostgresStore: {*STORE, "add"},
    Relay: {"run", "close", "stats"},
}


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)
def test_every_public_call_is_tried(kind: type[Any]) -> None:
    """A new call of this class needs a row, and one that is gone leaves none."""
    public = {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}
    assert public == TABLES[kind]

"""The tests: most with a MockProducer, which the test controls; a few with a Kafka in the process."""

from __future__ import annotations

import asyncio
import json

import pytest

from aioproducer import BrokerError, BufferFullError, DeliveryTimeoutError, Outcome, Producer
from aioproducer.testing import EmbeddedKafka, MockProducer

from .orders import CheckFirstError, Shop, TryAgainError


async def test_order_is_sent_with_its_customer_as_key() -> None:
    """`history` has the sent records."""
    async with MockProducer() as producer:
        assert await Shop(producer).place("alice", ["2 apples"]) == 0
    (record,) = producer.history
    assert (record.topic, record.key) == ("orders", b"alice")
    assert json.loads(record.value or b"") == {"customer": "alice", "items": ["2 apples"]}


async def test_refused_order_can_be_placed_again() -> None:
    """`fail_send` makes the next send() raise, as with a full buffer."""
    async with MockProducer() as producer:
        producer.fail_send(BufferFullError())
        with pytest.raises(TryAgainError):
            await Shop(producer).place("alice", ["2 apples"])
        assert await Shop(producer).place("alice", ["2 apples"]) == 0


async def test_order_with_unknown_outcome_must_be_checked() -> None:
    """`fail_delivery` makes the next record fail after it was accepted."""
    async with MockProducer() as producer:
        producer.fail_delivery(DeliveryTimeoutError(outcome=Outcome.UNKNOWN))
        with pytest.raises(CheckFirstError):
            await Shop(producer).place("alice", ["2 apples"])


async def test_failures_are_reported_by_customer() -> None:
    """Without `auto_complete` the test decides when and how each record ends."""
    async with MockProducer(auto_complete=False) as producer:
        placing = asyncio.create_task(Shop(producer).place_many({"alice": ["1 pear"], "bob": ["3 plums"]}))
        await producer.wait_pending(2)
        producer.complete_next()
        producer.fail_next(BrokerError(code=87, name="INVALID_RECORD"))
        assert await placing == ["bob"]


async def test_orders_arrive(embedded_kafka: EmbeddedKafka) -> None:
    """The real client and the real protocol, into a log."""
    embedded_kafka.create_topic("orders", 3)
    async with Producer(embedded_kafka.bootstrap_servers) as producer:
        assert await Shop(producer).place_many({"alice": ["1 pear"], "bob": ["3 plums"]}) == []
    assert {record.key for record in embedded_kafka.records("orders")} == {b"alice", b"bob"}


async def test_lost_answer_makes_no_second_order(embedded_kafka: EmbeddedKafka) -> None:
    """`faults` lets the broker fail: here the connection ends after the record is written, before the answer."""
    embedded_kafka.faults.cut(api="Produce")
    async with Producer(embedded_kafka.bootstrap_servers) as producer:
        await Shop(producer).place("alice", ["2 apples"])
    assert len(embedded_kafka.records("orders")) == 1


async def test_order_is_not_taken_while_kafka_is_down(embedded_kafka: EmbeddedKafka) -> None:
    """A stopped broker: the limits of the producer decide how long a customer waits."""
    await embedded_kafka.faults.stop_broker(1)
    async with Producer(embedded_kafka.bootstrap_servers, max_block_ms=100) as producer:
        with pytest.raises(TryAgainError):
            await Shop(producer).place("alice", ["2 apples"])

"""Transactional clients of other projects use the embedded Kafka unchanged."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from aioproducer.testing import EmbeddedKafka

LIMIT = 20.0
LAST = b"the last one"


def _producer(kafka: EmbeddedKafka, transactional_id: str = "x") -> Producer:
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": transactional_id, "linger.ms": 0}
    )
    producer.init_transactions(LIMIT)
    return producer


def _write(producer: Producer, *values: bytes) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce("t", value, partition=0)


def _consumer(kafka: EmbeddedKafka, **more: Any) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "check.crcs": True, **more}
    )
    consumer.assign([ConfluentPartition("t", 0, 0)])
    return consumer


def _values_until_last(kafka: EmbeddedKafka, isolation: str) -> list[bytes | None]:
    consumer = _consumer(kafka, **{"isolation.level": isolation})
    try:
        read: list[Message] = []
        while not read or read[-1].value() != LAST:
            got = consumer.poll(LIMIT)
            assert got is not None, f"nothing more after {len(read)} records"
            read.append(got)
        return [message.value() for message in read]
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("isolation", "seen"),
    [("read_committed", [b"1", b"2", LAST]), ("read_uncommitted", [b"1", b"2", b"3", LAST])],
)
async def test_confluent_commits_and_aborts(kafka: EmbeddedKafka, isolation: str, seen: list[bytes]) -> None:
    """librdkafka writes in transactions, and its consumer reads the committed records."""

    def run() -> list[bytes | None]:
        producer = _producer(kafka)
        _write(producer, b"1", b"2")
        producer.commit_transaction(LIMIT)
        _write(producer, b"3")
        producer.flush(LIMIT)
        producer.abort_transaction(LIMIT)
        _write(producer, LAST)
        producer.commit_transaction(LIMIT)
        return _values_until_last(kafka, isolation)

    assert await asyncio.to_thread(run) == seen
    assert [record.value for record in kafka.records("t", 0)] == [b"1", b"2", LAST]


async def test_confluent_commits_offsets(kafka: EmbeddedKafka) -> None:
    """The transaction commits offsets for the group of a consumer."""

    def run() -> None:
        producer, consumer = _producer(kafka), _consumer(kafka)
        _write(producer, b"1")
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([ConfluentPartition("t", 1, 7)], metadata, LIMIT)
        producer.commit_transaction(LIMIT)
        consumer.close()

    await asyncio.to_thread(run)
    assert kafka.committed_offset("g", "t", 1) == 7


async def test_confluent_is_fenced(kafka: EmbeddedKafka) -> None:
    """A second producer with the same transactional id fences the first, whose records are not committed."""

    def run() -> bool:
        first = _producer(kafka)
        _write(first, b"1")
        first.flush(LIMIT)
        second = _producer(kafka)
        _write(second, b"2")
        second.commit_transaction(LIMIT)
        with pytest.raises(KafkaException) as refused:
            first.commit_transaction(LIMIT)
        return bool(refused.value.args[0].fatal())

    assert await asyncio.to_thread(run)
    assert [record.value for record in kafka.records("t", 0)] == [b"2"]


async def test_aiokafka_commits_and_aborts(kafka: EmbeddedKafka) -> None:
    """aiokafka reads back the committed records, and its committed offsets apply."""
    servers = kafka.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id="x") as producer:
        async with producer.transaction():
            await producer.send_and_wait("t", b"1", partition=0)
            await producer.send_offsets_to_transaction({TopicPartition("t", 1): 5}, "g")
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"2", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_and_wait("t", LAST, partition=0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    consumer.assign([TopicPartition("t", 0)])
    async with consumer, asyncio.timeout(LIMIT):
        values = [(await consumer.getone()).value for _ in range(2)]
    assert values == [b"1", LAST]
    assert kafka.committed_offset("g", "t", 1) == 5


async def test_aiokafka_is_fenced(kafka: EmbeddedKafka) -> None:
    """A second producer with the same transactional id fences the first."""
    servers = kafka.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id="x") as first:
        await first.begin_transaction()
        await first.send_and_wait("t", b"1", partition=0)
        async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id="x"):
            with pytest.raises(ProducerFenced):
                await first.commit_transaction()
    assert kafka.records("t", 0) == []

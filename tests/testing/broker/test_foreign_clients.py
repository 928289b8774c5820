"""Clients of other projects use the embedded Kafka unchanged, to write and to read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from aioproducer.testing import EmbeddedKafka

Place = tuple[int | None, int | None, bytes | None]

COUNT = 500
LIMIT = 20.0
VALUES = [b"value %d" % i for i in range(COUNT)]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def _confluent_produce(servers: str, **settings: Any) -> list[KafkaError | None]:
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, **settings})
    for i, value in enumerate(VALUES):
        producer.produce(
            "t",
            value,
            b"%d" % i,
            partition=i % 2,
            headers=[("n", b"1")],
            on_delivery=lambda error, _: errors.append(error),
        )
    assert producer.flush(LIMIT) == 0
    return errors


def _confluent_consume(servers: str) -> list[Place]:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "g", "check.crcs": True, "enable.auto.commit": False}
    )
    try:
        consumer.assign([ConfluentPartition("t", index, 0) for index in (0, 1)])
        read: list[Message] = []
        while len(read) < COUNT:
            got = consumer.consume(COUNT, LIMIT)
            assert got, f"nothing more after {len(read)} records"
            read += got
        return [(message.partition(), message.offset(), message.value()) for message in read]
    finally:
        consumer.close()


async def _aiokafka_consume(servers: str) -> list[Place]:
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    consumer.assign([TopicPartition("t", index) for index in (0, 1)])
    await consumer.start()
    try:
        read: list[Place] = []
        async with asyncio.timeout(LIMIT):
            while len(read) < COUNT:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    read += [(record.partition, record.offset, record.value) for record in records]
        return read
    finally:
        await consumer.stop()


EXPECTED: list[Place] = [
    (index, offset, VALUES[offset * 2 + index]) for index in (0, 1) for offset in range(COUNT // 2)
]


@pytest.mark.parametrize("codec", CODECS)
async def test_confluent_writes_and_aiokafka_reads(kafka: EmbeddedKafka, codec: str) -> None:
    """librdkafka's idempotent producer, with every codec; aiokafka finds every record at its place."""
    errors = await asyncio.to_thread(
        _confluent_produce, kafka.bootstrap_servers, **{"enable.idempotence": True, "compression.type": codec}
    )
    assert errors == [None] * COUNT
    assert sorted(await _aiokafka_consume(kafka.bootstrap_servers)) == EXPECTED
    assert {record.headers for record in kafka.records("t")} == {(("n", b"1"),)}


@pytest.mark.parametrize("idempotent", [False, True])
async def test_aiokafka_writes_and_confluent_reads(kafka: EmbeddedKafka, idempotent: bool) -> None:
    """aiokafka's producer, plain and idempotent; librdkafka's consumer, which checks the checksums."""
    async with AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, enable_idempotence=idempotent
    ) as producer:
        sent = [await producer.send("t", value, partition=i % 2) for i, value in enumerate(VALUES)]
        await asyncio.wait_for(asyncio.gather(*sent), LIMIT)
    assert sorted(await asyncio.to_thread(_confluent_consume, kafka.bootstrap_servers)) == EXPECTED


async def test_a_producer_survives_a_leader_that_moves(three: EmbeddedKafka) -> None:
    """librdkafka finds the new leader and writes every record once, although the move lost the answers."""
    three.faults.error("NOT_LEADER_OR_FOLLOWER", times=2)
    three.faults.cut(times=2, skip=2)
    errors = await asyncio.to_thread(
        _confluent_produce, three.bootstrap_servers, **{"enable.idempotence": True}
    )
    assert errors == [None] * COUNT
    written = [(record.partition, record.offset, record.value) for record in three.records("t")]
    assert written == EXPECTED


async def test_confluent_administers(kafka: EmbeddedKafka) -> None:
    """An admin client creates, lists and deletes topics."""

    def administer() -> tuple[set[str], set[str]]:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_topics([NewTopic("made", 3, 1)])["made"].result(LIMIT)
        made = set(admin.list_topics(timeout=LIMIT).topics)
        admin.delete_topics(["made"])["made"].result(LIMIT)
        return made, set(admin.list_topics(timeout=LIMIT).topics)

    assert await asyncio.to_thread(administer) == ({"t", "made"}, {"t"})

"""Offsets of consumers of other libraries in transactions on a real Kafka: a former member is refused."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Message

from aioproducer import Producer, TransactionAbortedError
from tests.kafka.transactions.committed import LIMIT, offsets, values
from tools.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

COUNT: Final = 10
_numbers = itertools.count()


@pytest.fixture
def servers(transacting_kafka: KafkaCluster) -> str:
    """The addresses of a real Kafka of each kind."""
    return transacting_kafka.bootstrap_servers


@pytest.fixture
def name() -> str:
    """A group and a transactional id that no other test uses."""
    return f"consuming-{next(_numbers)}"


@pytest.fixture
async def source(transacting_kafka: KafkaCluster, name: str) -> str:
    """A topic with ten records in one partition."""
    topic = transacting_kafka.create_topic(f"source-of-{name}", 1)
    async with Producer(transacting_kafka.bootstrap_servers) as producer:
        await (await producer.send_batch(topic, [b"%d" % number for number in range(COUNT)]))
    return topic


@pytest.fixture
def sink(transacting_kafka: KafkaCluster, name: str) -> str:
    """An empty topic."""
    return transacting_kafka.create_topic(f"sink-of-{name}", 1)


@pytest.fixture
def confluent(servers: str, name: str, source: str) -> Iterator[Consumer]:
    """A member of the group, by confluent-kafka."""
    consumer = _confluent(servers, name)
    consumer.subscribe([source])
    yield consumer
    consumer.close()


def _confluent(servers: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )


@pytest.fixture
async def aiokafka(servers: str, name: str, source: str) -> AsyncIterator[Any]:
    """A member of the group, by aiokafka."""
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=servers,
        group_id=name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    yield consumer
    await consumer.stop()


async def test_of_aiokafka(servers: str, name: str, source: str, sink: str, aiokafka: Any) -> None:
    """`consumed()` takes aiokafka's records and consumer; records of an aborted transaction are consumed again."""
    async with Producer(servers, transactional_id=name) as producer:
        for aborts in (True, False):
            async with asyncio.timeout(LIMIT):
                found = await aiokafka.getmany(timeout_ms=10_000, max_records=COUNT)
            records = [record for each in found.values() for record in each]
            try:
                async with producer.transaction() as tx:
                    for record in records:
                        await producer.send(sink, record.value)
                    tx.consumed(records, aiokafka)
                    assert not aborts
            except AssertionError:
                for place in found:
                    aiokafka.seek(place, 0)
    assert await values(servers, sink, name) == {0: [b"%d" % number for number in range(COUNT)]}
    assert await offsets(servers, name, source, 1) == {0: COUNT}


async def test_of_confluent_kafka(
    servers: str, name: str, source: str, sink: str, confluent: Consumer
) -> None:
    """`consumed()` takes confluent-kafka's messages and consumer, and also its positions."""
    records = await asyncio.to_thread(confluent.consume, COUNT, LIMIT)
    async with Producer(servers, transactional_id=name) as producer:
        async with producer.transaction() as tx:
            for record in records[:5]:
                await producer.send(sink, record.value())
            tx.consumed(records[:5], confluent)
        assert await offsets(servers, name, source, 1) == {0: 5}
        async with producer.transaction():
            for record in records[5:]:
                await producer.send(sink, record.value())
            positions: Any = confluent.position(confluent.assignment())
            await producer.send_offsets_to_transaction(positions, confluent)
    assert await values(servers, sink, name) == {0: [b"%d" % number for number in range(COUNT)]}
    assert await offsets(servers, name, source, 1) == {0: COUNT}


async def test_e12_who_is_no_member_any_more(servers: str, name: str, source: str, sink: str) -> None:
    """E12: the group has rebalanced without the member: its transaction is aborted as a whole, and the next works."""
    zombie = _confluent(servers, name)
    records = await asyncio.to_thread(_first, zombie, source)
    member = zombie.consumer_group_metadata()
    zombie.close()
    successor = _confluent(servers, name)
    try:
        again = await asyncio.to_thread(_first, successor, source)
        async with Producer(servers, transactional_id=name) as producer:
            with pytest.raises(TransactionAbortedError):
                async with producer.transaction() as tx:
                    await producer.send(sink, b"of the zombie")
                    tx.consumed(records, member)
            assert await offsets(servers, name, source, 1) == {}
            async with producer.transaction() as tx:
                await producer.send(sink, b"of the successor")
                tx.consumed(again, successor)
    finally:
        successor.close()
    assert await values(servers, sink, name) == {0: [b"of the successor"]}
    assert await offsets(servers, name, source, 1) == {0: COUNT}


def _first(consumer: Consumer, topic: str) -> list[Message]:
    """All records of the topic, for a consumer that joins its group to read them."""
    consumer.subscribe([topic])
    found = consumer.consume(COUNT, LIMIT)
    assert len(found) == COUNT
    return found

"""Refusals of a real Kafka: the error has the reason, and the log does not have the records."""

from __future__ import annotations

import asyncio
import time

import pytest

from aioproducer import (
    BrokerError,
    MetadataTimeoutError,
    Outcome,
    Producer,
    RecordTooLargeError,
)
from tests.kafka.reading import ReadRecord, read_all
from tools.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

_MESSAGE_TOO_LARGE = 10
_INVALID_TIMESTAMP = 32
_INVALID_RECORD = 87


async def _read(kafka: KafkaCluster, topic: str) -> list[ReadRecord]:
    return await asyncio.to_thread(read_all, kafka.bootstrap_servers, topic)


async def test_a_topic_that_does_not_exist_is_waited_for_and_then_refused(real_kafka: KafkaCluster) -> None:
    """With auto-creation off, a send gives up after `max_block_ms` and names the topic."""
    async with Producer(real_kafka.bootstrap_servers, max_block_ms=300) as producer:
        with pytest.raises(MetadataTimeoutError, match="no-such-topic") as caught:
            await producer.send("no-such-topic", b"v")
    assert (caught.value.outcome, caught.value.topic) == (Outcome.NOT_WRITTEN, "no-such-topic")
    assert isinstance(caught.value.cause, BrokerError)
    assert caught.value.cause.name == "UNKNOWN_TOPIC_OR_PARTITION"


async def test_a_topic_made_while_a_send_waits_for_it_gets_the_record(real_kafka: KafkaCluster) -> None:
    """A send to a missing topic continues by itself once the topic is created."""
    async with Producer(real_kafka.bootstrap_servers, max_block_ms=20_000) as producer:
        waiting = asyncio.ensure_future(producer.send("late", b"v"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.3)
        await asyncio.to_thread(real_kafka.create_topic, "late", 1)
        metadata = await (await waiting)
    assert (metadata.offset, len(await _read(real_kafka, "late"))) == (0, 1)


async def test_a_partition_that_does_not_exist_is_refused(real_kafka: KafkaCluster) -> None:
    """A partition above the topic's last is refused long before `max_block_ms`, and the record is written nowhere."""
    topic = real_kafka.create_topic("two-partitions", 2)
    async with Producer(real_kafka.bootstrap_servers) as producer, asyncio.timeout(20):
        with pytest.raises(MetadataTimeoutError, match="the topic has 2 partitions") as caught:
            await producer.send(topic, b"v", partition=2)
    assert (caught.value.outcome, caught.value.partition) == (Outcome.NOT_WRITTEN, 2)
    assert await _read(real_kafka, topic) == []


async def test_the_largest_request_is_a_limit_of_the_client(real_kafka: KafkaCluster) -> None:
    """A record just within `max_request_size` is written; a larger one is refused before it is accepted."""
    topic = real_kafka.create_topic("client-limit", 1, max_message_bytes=300_000)
    async with Producer(real_kafka.bootstrap_servers, max_request_size=200_000) as producer:
        await producer.send_and_wait(topic, b"v" * 199_900)
        with pytest.raises(RecordTooLargeError, match="max_request_size") as caught:
            await producer.send(topic, b"v" * 200_001)
    assert caught.value.outcome is Outcome.NOT_WRITTEN
    assert [len(record.value or b"") for record in await _read(real_kafka, topic)] == [199_900]


async def test_one_record_above_the_topics_limit_fails_alone(real_kafka: KafkaCluster) -> None:
    """A record larger than `max.message.bytes` ends as not written; those around it are written, in order."""
    topic = real_kafka.create_topic("topic-limit", 1, max_message_bytes=10_000)
    async with Producer(real_kafka.bootstrap_servers) as producer:
        values = [b"1", b"v" * 20_000, b"2"]
        sent = [await producer.send(topic, value) for value in values]
        await producer.flush()
    assert [delivery.outcome for delivery in sent] == [Outcome.ACKED, Outcome.NOT_WRITTEN, Outcome.ACKED]
    error = sent[1].exception()
    assert isinstance(error, BrokerError)
    assert isinstance(error, RecordTooLargeError)
    assert (error.code, error.setting) == (_MESSAGE_TOO_LARGE, "max.message.bytes")
    assert [record.value for record in await _read(real_kafka, topic)] == [b"1", b"2"]


async def test_a_batch_above_the_topics_limit_is_split(real_kafka: KafkaCluster) -> None:
    """A batch that the broker finds too large arrives in smaller ones: all records, once, in order."""
    topic = real_kafka.create_topic("split", 1, max_message_bytes=5000)
    values = [b"%04d" % number * 25 for number in range(1000)]
    async with Producer(real_kafka.bootstrap_servers, linger_ms=50) as producer:
        sent = [await producer.send(topic, value) for value in values]
        offsets = [(await delivery).offset for delivery in sent]
    assert offsets == list(range(1000))
    assert [record.value for record in await _read(real_kafka, topic)] == values


async def test_a_record_the_broker_dislikes_is_named(real_kafka: KafkaCluster) -> None:
    """On a compacted topic a record without a key is INVALID_RECORD; its batch is not written at all."""
    topic = real_kafka.create_topic("compacted", 1, cleanup_policy="compact")
    async with Producer(real_kafka.bootstrap_servers, linger_ms=60_000) as producer:
        sent = [await producer.send(topic, b"v", key=key) for key in (b"a", None, b"c")]
        report = await producer.flush()
    assert [delivery.outcome for delivery in sent] == [Outcome.NOT_WRITTEN] * 3
    guilty = sent[1].exception()
    assert isinstance(guilty, BrokerError)
    assert guilty.code == _INVALID_RECORD
    assert str(guilty) != str(sent[0].exception())
    assert (report.not_written, await _read(real_kafka, topic)) == (3, [])


async def test_a_timestamp_from_the_future_is_refused(real_kafka: KafkaCluster) -> None:
    """The topic's limit on timestamps is an INVALID_TIMESTAMP of the delivery."""
    topic = real_kafka.create_topic("no-future", 1, message_timestamp_after_max_ms=1000)
    async with Producer(real_kafka.bootstrap_servers) as producer:
        delivery = await producer.send(topic, b"v", timestamp=int((time.time() + 3600) * 1000))
        with pytest.raises(BrokerError) as caught:
            await delivery
    assert (caught.value.code, caught.value.outcome) == (_INVALID_TIMESTAMP, Outcome.NOT_WRITTEN)


async def test_a_topic_that_was_made_anew_gets_what_is_sent_after(real_kafka: KafkaCluster) -> None:
    """When a topic is deleted and created again under its name, sends find the new one by themselves."""
    topic = real_kafka.create_topic("again", 1)
    async with Producer(real_kafka.bootstrap_servers) as producer:
        await producer.send_and_wait(topic, b"old")
        await asyncio.to_thread(_make_anew, real_kafka, topic)
        metadata = await producer.send_and_wait(topic, b"new")
    assert metadata.offset == 0
    assert [record.value for record in await _read(real_kafka, topic)] == [b"new"]


def _make_anew(kafka: KafkaCluster, topic: str) -> None:
    kafka.delete_topic(topic)
    kafka.create_topic(topic, 1)

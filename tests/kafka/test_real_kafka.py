"""Records on a real Kafka: every sent record is there, unchanged, once."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import UTC, datetime
from typing import Literal, get_args

import pyarrow
import pytest

from aioproducer import Delivery, Outcome, Producer, RecordMetadata, TimestampType
from aioproducer.records import BytesLike
from tests.golden.vectors import golden_keys
from tests.kafka.reading import ReadRecord, by_partition, read_all
from tools.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Acks = Literal["0", "1", "all"]


async def _read(kafka: KafkaCluster, topic: str) -> list[ReadRecord]:
    return await asyncio.to_thread(read_all, kafka.bootstrap_servers, topic)


async def test_the_order_of_the_calls_is_the_order_of_the_log(real_kafka: KafkaCluster) -> None:
    """5,000 records of one task are in one partition in the order of their sends, each at its offset."""
    topic = real_kafka.create_topic("order", 1)
    values = [b"%d" % number for number in range(5000)]
    async with Producer(real_kafka.bootstrap_servers, batch_size=4096) as producer:
        deliveries = [await producer.send(topic, value) for value in values]
        offsets = [(await delivery).offset for delivery in deliveries]
    assert offsets == list(range(5000))
    assert [record.value for record in await _read(real_kafka, topic)] == values


async def test_every_task_keeps_its_order(real_kafka: KafkaCluster) -> None:
    """Records of 20 concurrent tasks interleave, but each task's records keep their order."""
    topic = real_kafka.create_topic("tasks", 3)

    async def send(task: int, producer: Producer[BytesLike, BytesLike]) -> None:
        for number in range(100):
            await producer.send(topic, b"%d" % number, key=b"%d" % task)

    async with Producer(real_kafka.bootstrap_servers, linger_ms=1) as producer:
        await asyncio.gather(*(send(task, producer) for task in range(20)))
    read = await _read(real_kafka, topic)
    for task in range(20):
        own = [record.value for record in read if record.key == b"%d" % task]
        assert own == [b"%d" % number for number in range(100)]


async def test_every_field_arrives_as_it_was_given(real_kafka: KafkaCluster) -> None:
    """Null and empty keys and values, repeated, null and non-ASCII headers and timestamps are kept apart."""
    topic = real_kafka.create_topic("fields", 1)
    headers = [("h", b"1"), ("h", None), ("", b""), ("h\u00e9", b"2")]
    given: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]] = [
        (None, None, 0, []),
        (b"", b"", 1, []),
        (b"k", None, 1_700_000_000_000, [("only", None)]),
        (None, b"v", 1_600_000_000_000, headers),
        (bytes(range(256)), bytes(range(256)), 1_700_000_000_001, headers * 10),
    ]
    async with Producer(real_kafka.bootstrap_servers) as producer:
        for key, value, timestamp, pairs in given:
            await producer.send(topic, value, key=key, timestamp=timestamp, headers=pairs)
    assert await _read(real_kafka, topic) == [
        ReadRecord(0, offset, key, value, timestamp, "CreateTime", tuple(pairs))
        for offset, (key, value, timestamp, pairs) in enumerate(given)
    ]


async def test_a_record_without_a_timestamp_has_the_time_of_its_acceptance(real_kafka: KafkaCluster) -> None:
    """The timestamp in the log is wall-clock time in milliseconds, and the metadata has the same."""
    topic = real_kafka.create_topic("now", 1)
    before = int(time.time() * 1000)
    async with Producer(real_kafka.bootstrap_servers) as producer:
        metadata = await producer.send_and_wait(topic, b"v")
    (record,) = await _read(real_kafka, topic)
    assert before <= record.timestamp <= int(time.time() * 1000)
    assert (metadata.timestamp, metadata.timestamp_type) == (record.timestamp, TimestampType.CREATE_TIME)


async def test_a_datetime_is_its_milliseconds(real_kafka: KafkaCluster) -> None:
    """An aware datetime is written as the milliseconds since the epoch."""
    topic = real_kafka.create_topic("datetime", 1)
    moment = datetime(2026, 8, 1, 12, 30, 15, 250_000, tzinfo=UTC)
    async with Producer(real_kafka.bootstrap_servers) as producer:
        await producer.send(topic, b"v", timestamp=moment)
    (record,) = await _read(real_kafka, topic)
    assert record.timestamp == int(moment.timestamp() * 1000)


async def test_log_append_time_is_told(real_kafka: KafkaCluster) -> None:
    """On a topic that stamps its own time, the metadata has that time and not the producer's."""
    topic = real_kafka.create_topic("append-time", 1, message_timestamp_type="LogAppendTime")
    async with Producer(real_kafka.bootstrap_servers) as producer:
        metadata = await producer.send_and_wait(topic, b"v", timestamp=1234)
    (record,) = await _read(real_kafka, topic)
    assert (metadata.timestamp, metadata.timestamp_type) == (record.timestamp, TimestampType.LOG_APPEND_TIME)
    assert record.timestamp_type == "LogAppendTime"


@pytest.mark.parametrize("codec", get_args(Codec))
async def test_every_codec_is_read_by_a_foreign_consumer(real_kafka: KafkaCluster, codec: Codec) -> None:
    """Data that compresses well and data that does not, in small and large batches, is read back whole."""
    topic = real_kafka.create_topic(f"codec-{codec}", 2)
    noise = random.Random(codec).randbytes(300_000)
    values = [b"the same words again and again, %d" % number for number in range(3000)] + [noise, b""]
    async with Producer(real_kafka.bootstrap_servers, compression_type=codec) as producer:
        for value in values:
            await producer.send(topic, value, partition=1, headers=[("h", b"1")])
    assert [record.value for record in await _read(real_kafka, topic)] == values


@pytest.mark.parametrize("acks", get_args(Acks))
async def test_every_kind_of_acknowledgement_writes_the_record(real_kafka: KafkaCluster, acks: Acks) -> None:
    """100 records are in the log with every acks; only acks=0 returns no offsets."""
    topic = real_kafka.create_topic(f"acks-{acks}", 1)
    async with Producer(
        real_kafka.bootstrap_servers, acks=acks, enable_idempotence=acks == "all"
    ) as producer:
        sent = [await producer.send(topic, b"%d" % number) for number in range(100)]
        offsets = [(await delivery).offset for delivery in sent]
        # With acks=0 only the order of one connection proves that the earlier records have arrived.
        await producer.flush()
    assert offsets == ([-1] * 100 if acks == "0" else list(range(100)))
    assert len(await _read_at_least(real_kafka, topic, 100)) == 100


async def _read_at_least(kafka: KafkaCluster, topic: str, count: int) -> list[ReadRecord]:
    deadline = time.monotonic() + 10
    while len(read := await _read(kafka, topic)) < count and time.monotonic() < deadline:
        pass
    return read


@pytest.mark.parametrize("count", [1, 3, 12, 50])
async def test_keys_land_where_java_puts_them(real_kafka: KafkaCluster, count: int) -> None:
    """Each of 1,500 keys is in the partition that the Java client chooses for this number of partitions."""
    topic = real_kafka.create_topic(f"keys-{count}", count)
    keys = _keys_of(count)
    async with Producer(real_kafka.bootstrap_servers) as producer:
        deliveries = {key: await producer.send(topic, b"v", key=key) for key in keys}
        await producer.flush()
        assert {key: delivery.partition for key, delivery in deliveries.items()} == keys
    assert {record.key: record.partition for record in await _read(real_kafka, topic)} == keys


def _keys_of(count: int) -> dict[bytes | None, int]:
    counted = [golden for golden in golden_keys() if count in golden.partitions]
    return {golden.key: golden.partitions[count] for golden in counted}


async def test_records_without_a_key_use_every_partition(real_kafka: KafkaCluster) -> None:
    """The sticky partition changes with every full batch, and no partition is left out."""
    topic = real_kafka.create_topic("sticky", 4)
    async with Producer(real_kafka.bootstrap_servers, batch_size=2048) as producer:
        for _ in range(4000):
            await producer.send(topic, b"v" * 100)
    sizes = {p: len(records) for p, records in by_partition(await _read(real_kafka, topic)).items()}
    assert (set(sizes), sum(sizes.values())) == ({0, 1, 2, 3}, 4000)
    assert max(sizes.values()) < 3000


async def test_a_column_of_values_is_told_record_by_record(real_kafka: KafkaCluster) -> None:
    """`send_batch` returns partition and offset of each value, and each is found there."""
    topic = real_kafka.create_topic("columns", 3)
    values = [b"value-%d" % number for number in range(2000)]
    keys = [b"key-%d" % (number % 50) for number in range(2000)]
    async with Producer(real_kafka.bootstrap_servers) as producer:
        delivery = await producer.send_batch(topic, values, keys=keys, headers=[("h", b"1")])
        result = await delivery
    read = {(record.partition, record.offset): record for record in await _read(real_kafka, topic)}
    found = [read[place] for place in zip(result.partitions, result.offsets, strict=True)]
    assert [(record.key, record.value) for record in found] == list(zip(keys, values, strict=True))
    assert (result.acked, result.errors, {record.headers for record in found}) == (2000, {}, {(("h", b"1"),)})


async def test_arrow_columns_arrive_with_their_nulls(real_kafka: KafkaCluster) -> None:
    """Arrow strings, binaries and timestamps become values, keys and times; a null value is a tombstone."""
    topic = real_kafka.create_topic("arrow", 1)
    values = pyarrow.array(["a", None, "\u00e9", ""])
    keys = pyarrow.array([b"1", b"2", None, b""])
    times = pyarrow.array([1000, 2000, 3000, 4000], pyarrow.timestamp("ms"))
    async with Producer(real_kafka.bootstrap_servers) as producer:
        await (await producer.send_batch(topic, values, keys=keys, timestamps=times, partition=0))
    assert [(r.key, r.value, r.timestamp) for r in await _read(real_kafka, topic)] == [
        (b"1", b"a", 1000),
        (b"2", None, 2000),
        (None, "\u00e9".encode(), 3000),
        (b"", b"", 4000),
    ]


async def test_a_delivery_tells_everything_of_its_record(real_kafka: KafkaCluster) -> None:
    """The delivery's topic, partition, offset, time and sizes are those of the record in the log."""
    topic = real_kafka.create_topic("metadata", 2)
    async with Producer(real_kafka.bootstrap_servers) as producer:
        delivery = await producer.send(topic, b"value", key=b"k", partition=1, timestamp=77)
        metadata = await delivery
    assert metadata == RecordMetadata(topic, 1, 0, 77, TimestampType.CREATE_TIME, 1, 5)
    assert (delivery.outcome, delivery.topic, delivery.partition) == (Outcome.ACKED, topic, 1)


async def test_flush_leaves_nothing_behind(real_kafka: KafkaCluster) -> None:
    """After `flush()` every earlier delivery is done, without waiting for a linger of a minute."""
    topic = real_kafka.create_topic("flush", 3)
    async with Producer(real_kafka.bootstrap_servers, linger_ms=60_000) as producer:
        sent = [await producer.send(topic, b"%d" % number, key=b"%d" % number) for number in range(300)]
        report = await producer.flush()
        assert all(delivery.outcome is Outcome.ACKED for delivery in sent)
    assert (report.acked, report.not_written, report.unknown) == (300, 0, 0)
    assert len(await _read(real_kafka, topic)) == 300


async def test_close_sends_what_is_buffered(real_kafka: KafkaCluster) -> None:
    """Records that still linger are written by `close()`, and its report counts them."""
    topic = real_kafka.create_topic("close", 2)
    producer = Producer(real_kafka.bootstrap_servers, linger_ms=60_000)
    await producer.start()
    for number in range(100):
        await producer.send(topic, b"%d" % number)
    report = await producer.close()
    assert (report.delivered, report.not_written, report.unknown) == (100, 0, 0)
    assert len(await _read(real_kafka, topic)) == 100


async def test_sends_without_a_wait_on_a_cold_topic_all_arrive(real_kafka: KafkaCluster) -> None:
    """`send_nowait` queues records of an unknown topic, and keeps their order."""
    topic = real_kafka.create_topic("nowait", 1)
    async with Producer(real_kafka.bootstrap_servers) as producer:
        sent: list[Delivery] = [producer.send_nowait(topic, b"%d" % number) for number in range(200)]
        offsets = [(await delivery).offset for delivery in sent]
    assert offsets == list(range(200))
    assert [record.value for record in await _read(real_kafka, topic)] == [b"%d" % n for n in range(200)]


async def test_sends_from_another_thread_arrive(real_kafka: KafkaCluster) -> None:
    """`send_threadsafe` returns the metadata of the written record to a worker thread."""
    topic = real_kafka.create_topic("threads", 1)
    async with Producer(real_kafka.bootstrap_servers) as producer:

        def work() -> list[int]:
            futures = [producer.send_threadsafe(topic, b"%d" % number) for number in range(50)]
            return [future.result(30).offset for future in futures]

        assert await asyncio.to_thread(work) == list(range(50))
    assert [record.value for record in await _read(real_kafka, topic)] == [b"%d" % n for n in range(50)]

"""The wait for acceptance is limited: `max_block` covers metadata, memory and serializers together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer import (
    AuthorizationError,
    BufferFullError,
    KafkaError,
    MetadataTimeoutError,
    Outcome,
    Producer,
    RecordError,
)
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import LIMIT, held_requests, started, turns, unknown_topic, values, warm


async def test_metadata_timeout(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A topic that does not become known within max_block is a MetadataTimeoutError that names it."""
    unknown_topic(kafka)
    with pytest.raises(MetadataTimeoutError, match="new") as caught:
        await producer.send("new", b"v", max_block=0.02)
    assert caught.value.topic == "new"
    assert caught.value.outcome is Outcome.NOT_WRITTEN
    assert caught.value.retriable
    assert isinstance(caught.value, TimeoutError)


async def test_default_max_block(make: Make, kafka: EmbeddedKafka) -> None:
    """Without max_block the setting max_block_ms applies."""
    producer = await warm(make(max_block_ms=300))
    unknown_topic(kafka)
    with pytest.raises(MetadataTimeoutError):
        await producer.send("new", b"v")


async def test_max_block_of_the_call_goes_beyond_the_setting(make: Make, kafka: EmbeddedKafka) -> None:
    """A longer max_block of one call is in force for it, while others give up by the setting."""
    producer = await warm(make(max_block_ms=300))
    hold = unknown_topic(kafka)
    patient = started(producer.send("new", b"v", max_block=5))
    with pytest.raises(MetadataTimeoutError):
        await producer.send("new", b"w")
    hold.release()
    await patient
    await producer.flush()
    assert values(kafka, "new") == [b"v"]


async def test_max_block_zero_does_not_wait(producer: Producer, kafka: EmbeddedKafka) -> None:
    """max_block=0 refuses records that cannot be accepted now, and accepts the others."""
    unknown_topic(kafka)
    await producer.send("one", b"v", max_block=0)
    with pytest.raises(MetadataTimeoutError):
        await producer.send("new", b"v", max_block=0)


async def test_topic_that_does_not_exist() -> None:
    """Without automatic creation of topics, a missing one is a MetadataTimeoutError after max_block."""
    async with (
        EmbeddedKafka(auto_create_topics=False) as kafka,
        Producer(kafka.bootstrap_servers) as producer,
    ):
        with pytest.raises(MetadataTimeoutError, match="missing"):
            await producer.send("missing", b"v", max_block=0.05)


async def test_topic_that_appears_in_time() -> None:
    """A topic that is created while a send waits for it is found."""
    async with (
        EmbeddedKafka(auto_create_topics=False) as kafka,
        Producer(kafka.bootstrap_servers, retry_backoff_ms=10) as producer,
    ):
        task = started(producer.send("late", b"v"))
        await turns(5)
        kafka.create_topic("late")
        assert (await (await task)).offset == 0


async def test_partition_that_does_not_exist(producer: Producer) -> None:
    """The call waits for a partition that the topic does not have; the error names it."""
    with pytest.raises(MetadataTimeoutError, match="7") as caught:
        await producer.send("one", b"v", partition=7, max_block=0.05)
    assert (caught.value.topic, caught.value.partition) == ("one", 7)


async def test_partition_that_appears_in_time(make: Make, kafka: EmbeddedKafka) -> None:
    """A partition that is added while a send waits for it is found."""
    producer = await warm(make(retry_backoff_ms=10))
    task = started(producer.send("one", b"v", partition=2))
    await turns(5)
    kafka.add_partitions("one", 3)
    delivery = await asyncio.wait_for(task, LIMIT)
    assert (await delivery).partition == 2


async def test_a_waiting_partition_does_not_hold_up_others_for_ever(
    producer: Producer, kafka: EmbeddedKafka
) -> None:
    """When a record for a missing partition gives up, later records are written."""
    first = started(producer.send("one", b"lost", partition=7, max_block=0.05))
    second = started(producer.send("one", b"kept"))
    with pytest.raises(MetadataTimeoutError):
        await first
    await (await second)
    assert values(kafka) == [b"kept"]


async def test_no_permission_fails_at_once(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A topic without permission to see it is an AuthorizationError, long before max_block."""
    kafka.faults.alter(_with_topic_error(29), api="Metadata", topic="new", times=None)
    with pytest.raises(AuthorizationError, match="new") as caught:
        await asyncio.wait_for(producer.send("new", b"v"), 5)
    assert caught.value.outcome is Outcome.NOT_WRITTEN


async def test_invalid_topic_of_the_broker_fails_at_once(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A name that only the broker finds invalid is a RecordError, long before max_block."""
    kafka.faults.alter(_with_topic_error(17), api="Metadata", topic="new", times=None)
    with pytest.raises(RecordError, match="new"):
        await asyncio.wait_for(producer.send("new", b"v"), 5)


def _with_topic_error(code: int) -> Callable[[Any], Any]:
    def change(answer: Any) -> Any:
        topics = [
            topic._replace(error_code=code, partitions=[]) if topic.name == "new" else topic
            for topic in answer.topics
        ]
        return answer._replace(topics=topics)

    return change


async def test_buffer_full(make: Make, kafka: EmbeddedKafka) -> None:
    """No room within max_block is a BufferFullError that names topic and partition."""
    producer = await warm(make(buffer_memory=3000))
    held_requests(kafka)
    await producer.send("one", bytes(2000))
    with pytest.raises(BufferFullError, match="buffer_memory") as caught:
        await producer.send("one", bytes(2000), max_block=0.02)
    error = caught.value
    assert (error.topic, error.partition, error.outcome) == ("one", 0, Outcome.NOT_WRITTEN)
    assert error.retriable
    assert isinstance(error, TimeoutError)


async def test_buffer_full_with_max_block_zero(make: Make, kafka: EmbeddedKafka) -> None:
    """max_block=0 refuses at once when memory is full."""
    producer = await warm(make(buffer_memory=3000))
    held_requests(kafka)
    await producer.send("one", bytes(2000))
    with pytest.raises(BufferFullError):
        await asyncio.wait_for(producer.send("one", bytes(2000), max_block=0), 5)


async def test_room_comes_back_with_the_acknowledgement(make: Make, kafka: EmbeddedKafka) -> None:
    """A send that waits for memory is accepted as soon as the records in its way are acknowledged."""
    producer = await warm(make(buffer_memory=3000, linger_ms=60_000))
    for i in range(20):
        await asyncio.wait_for(producer.send("one", b"%02d" % i + bytes(2000)), LIMIT)
    await producer.flush()
    assert [(value or b"")[:2] for value in values(kafka)] == [b"%02d" % i for i in range(20)]


async def test_memory_is_never_exceeded(make: Make, kafka: EmbeddedKafka) -> None:
    """The buffered and in-flight bytes stay within buffer_memory, for any demand."""
    producer = await warm(make(buffer_memory=10_000))
    tasks = [started(producer.send("four", bytes(700), partition=i % 4)) for i in range(200)]
    seen = 0
    while not all(task.done() for task in tasks):
        stats = producer.stats()
        seen = max(seen, stats.bytes_buffered + stats.bytes_in_flight)
        await asyncio.sleep(0)
    assert 0 < seen <= 10_000
    await asyncio.gather(*tasks)
    await producer.flush()
    assert len(values(kafka, "four")) == 200


async def test_record_larger_than_the_memory(make: Make) -> None:
    """A record that can never fit into buffer_memory is refused at once."""
    producer = await warm(make(buffer_memory=3000))
    with pytest.raises(RecordError):
        await asyncio.wait_for(producer.send("one", bytes(4000)), 5)


async def test_a_slow_serializer_counts(make: Make) -> None:
    """The time of a coroutine serializer counts towards max_block."""

    async def never(value: object) -> bytes:
        await asyncio.Event().wait()
        return b""

    producer = await warm(make(value_serializer=never))
    with pytest.raises(KafkaError) as caught:
        await producer.send("one", b"v", max_block=0.02)
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.outcome is Outcome.NOT_WRITTEN


async def test_a_serializer_that_gave_up_does_not_block_the_topic(make: Make, kafka: EmbeddedKafka) -> None:
    """Records behind one whose serializer never ended are written after that record gave up."""

    async def never_for_x(value: bytes) -> bytes:
        if value == b"x":
            await asyncio.Event().wait()
        return value

    producer = await warm(make(value_serializer=never_for_x))
    lost = started(producer.send("one", b"x", max_block=0.02))
    kept = started(producer.send("one", b"y"))
    await (await kept)
    assert isinstance(lost.exception(), KafkaError)
    assert values(kafka) == [b"y"]


async def test_timeout_of_the_record_counts_from_the_call(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A record whose own time ends before acceptance is refused, within that time."""
    unknown_topic(kafka)
    with pytest.raises(TimeoutError) as caught:
        await asyncio.wait_for(producer.send("new", b"v", timeout=0.02), 5)
    assert isinstance(caught.value, KafkaError)
    assert caught.value.outcome is Outcome.NOT_WRITTEN

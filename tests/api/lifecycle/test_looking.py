"""The readings of a producer and its purge: partitions_for, stats, health, repr, purge."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import attrs
import pytest

from aioproducer import (
    BrokerError,
    DeliveryError,
    MetadataTimeoutError,
    Outcome,
    PartitionInfo,
    Producer,
    RecordError,
    Stats,
)
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import LIMIT, held_requests, started, turns, unknown_topic, until, values, warm


async def test_partitions_for(producer: Producer) -> None:
    """It returns each partition with leader, replicas and in-sync replicas."""
    found = await producer.partitions_for("four")
    assert found == tuple(PartitionInfo(i, 1, (1,), (1,), ()) for i in range(4))


async def test_partitions_for_an_unknown_topic_waits(producer: Producer, kafka: EmbeddedKafka) -> None:
    """It waits for metadata that is not known yet."""
    hold = unknown_topic(kafka)
    task = started(producer.partitions_for("new"))
    await hold.reached()
    assert not task.done()
    hold.release()
    assert len(await task) == 1


async def test_partitions_for_gives_up(make: Make, kafka: EmbeddedKafka) -> None:
    """After max_block_ms it raises a MetadataTimeoutError that names the topic."""
    producer = await warm(make(max_block_ms=300))
    unknown_topic(kafka)
    with pytest.raises(MetadataTimeoutError, match="new"):
        await producer.partitions_for("new")


async def test_partitions_for_a_partition_without_leader(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A partition without a leader has None in its place."""
    kafka.create_topic("headless", 1)
    kafka.faults.move_leader("headless", 0, -1)
    (info,) = await producer.partitions_for("headless")
    assert info.leader is None


@pytest.mark.parametrize("topic", [None, "", "a/b", 7])
async def test_partitions_for_a_bad_name(producer: Producer, topic: Any) -> None:
    """An invalid name is a RecordError."""
    with pytest.raises(RecordError, match="topic"):
        await producer.partitions_for(topic)


async def test_stats_of_sent_records(producer: Producer) -> None:
    """Counters have the accepted and acknowledged records; gauges are 0."""
    for _ in range(10):
        await producer.send("one", b"v")
    await producer.flush()
    stats = producer.stats()
    assert isinstance(stats, Stats)
    assert (stats.records_accepted, stats.records_acked, stats.records_failed) == (10, 10, 0)
    assert stats.bytes_accepted > 0
    assert stats.bytes_acked > 0
    assert (stats.batches, stats.requests) == (1, 1)
    assert (stats.records_buffered, stats.bytes_buffered, stats.records_in_flight) == (0, 0, 0)
    assert (stats.waiting_calls, stats.oldest_unacked_seconds) == (0, None)
    assert (stats.queue_time.count, stats.request_time.count, stats.batch_size.count) == (1, 1, 1)


async def test_stats_are_a_frozen_snapshot(producer: Producer) -> None:
    """A snapshot does not change afterwards, and cannot be changed."""
    before = producer.stats()
    await producer.send_and_wait("one", b"v")
    assert before.records_accepted == 0
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        before.records_accepted = 5  # type: ignore[misc]


async def test_stats_of_buffered_and_flying(make: Make, kafka: EmbeddedKafka) -> None:
    """Gauges separate buffered records from those in flight, and have the age of the oldest."""
    producer = await warm(make(linger_ms=10_000))
    hold = held_requests(kafka)
    flying = await producer.send("one", b"v")
    flying.add_done_callback(lambda _: None)
    await hold.reached()
    await producer.send("four", b"w")
    stats = producer.stats()
    assert (stats.records_in_flight, stats.records_buffered) == (1, 1)
    assert stats.bytes_in_flight > 0
    assert stats.bytes_buffered > 0
    (connection,) = [one for one in stats.connections if one.requests_in_flight]
    assert connection.bytes_in_flight > stats.bytes_in_flight
    assert 0 <= (stats.oldest_unacked_seconds or 0) < LIMIT


async def test_queued_records_are_seen(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Records of send_nowait() that wait for their topic count as buffered, with their bytes and their age."""
    hold = unknown_topic(kafka)
    first = [producer.send_nowait("new", bytes(100))]
    await until(lambda: (producer.health().oldest_unacked_seconds or 0) > 0.02)
    deliveries = first + [producer.send_nowait("new", bytes(100)) for _ in range(4)]
    stats = producer.stats()
    assert "5 records buffered" in repr(producer)
    assert (stats.records_buffered, stats.records_in_flight) == (5, 0)
    assert 500 < stats.bytes_buffered < 1000
    assert (stats.oldest_unacked_seconds or 0) > 0.02
    hold.release()
    await asyncio.gather(*deliveries)
    stats = producer.stats()
    assert (stats.records_buffered, stats.bytes_buffered, stats.oldest_unacked_seconds) == (0, 0, None)


async def test_stats_of_failures(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Failures are counted by Kafka's name of the error, and by topic."""
    kafka.faults.error("INVALID_REQUIRED_ACKS")
    await (await producer.send("one", b"v")).wait()
    stats = producer.stats()
    assert stats.records_failed == 1
    assert dict(stats.failed_by_error) == {"INVALID_REQUIRED_ACKS": 1}
    assert dict(stats.losses_by_topic) == {"one": 1}


async def test_stats_of_retries(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Records that were sent again are counted."""
    kafka.faults.error("NOT_ENOUGH_REPLICAS", times=2)
    await producer.send_and_wait("one", b"v")
    assert producer.stats().records_retried == 2


async def test_stats_of_waiting_calls(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Calls that wait to be accepted are counted."""
    hold = unknown_topic(kafka)
    tasks = [started(producer.send("new", b"v")) for _ in range(3)]
    await hold.reached()
    during = producer.stats().waiting_calls
    hold.release()
    await asyncio.gather(*tasks)
    assert (during, producer.stats().waiting_calls) == (3, 0)


async def test_stats_of_connections(producer: Producer) -> None:
    """Each broker's connection is there with its state."""
    await producer.send_and_wait("one", b"v")
    connection, metadata = producer.stats().connections
    assert (connection.broker, metadata.broker) == ("1", "metadata")
    for one in (connection, metadata):
        assert (one.state, one.connects, one.failures, one.last_error) == ("connected", 1, 0, None)
        assert one.address == str(producer.config.bootstrap_servers[0])
        assert one.requests == one.request_time.count > 0
        assert (one.request_errors, one.throttle_seconds) == (0, 0.0)
        assert min(one.bytes_sent, one.bytes_received) > 0


async def test_stats_of_compression(make: Make) -> None:
    """The ratio of compressed batches is in the histogram, below 1 for compressible records."""
    producer = await warm(make(compression_type="lz4"))
    await producer.send_and_wait("one", bytes(50_000))
    ratio = producer.stats().compression_ratio
    assert ratio.count == 1
    assert (ratio.mean or 1) < 0.5


async def test_stats_before_start_and_after_close(make: Make) -> None:
    """They can be read at any time; after close they keep their last values."""
    producer = make()
    assert producer.stats() == Stats()
    await warm(producer)
    await producer.send_and_wait("one", b"v")
    await producer.close()
    assert producer.stats().records_acked == 1


async def test_health(make: Make) -> None:
    """It goes from new over running to closed, with connections and the last acknowledgement."""
    producer = make()
    states = [producer.health().state]
    await warm(producer)
    before = producer.health()
    await producer.send_and_wait("one", b"v")
    during = producer.health()
    await producer.close()
    states += [before.state, producer.health().state]
    assert states == ["new", "running", "closed"]
    assert before.seconds_since_last_ack is None
    assert during.connected_brokers == 1
    assert 0 <= (during.seconds_since_last_ack or 0) < LIMIT
    assert during.oldest_unacked_seconds is None


async def test_health_of_a_stuck_producer(producer: Producer, kafka: EmbeddedKafka) -> None:
    """It has the waiting time of the oldest record."""
    hold = held_requests(kafka)
    delivery = await producer.send("one", b"v")
    delivery.add_done_callback(lambda _: None)
    await hold.reached()
    first = producer.health().oldest_unacked_seconds
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline and (producer.health().oldest_unacked_seconds or 0) <= (first or 0):
        await turns(1)
    assert (producer.health().oldest_unacked_seconds or 0) > (first or 0) > 0


async def test_health_has_the_last_error(producer: Producer, kafka: EmbeddedKafka) -> None:
    """It has the last error."""
    kafka.faults.error("INVALID_REQUIRED_ACKS")
    await (await producer.send("one", b"v")).wait()
    assert isinstance(producer.health().last_error, BrokerError)


async def test_repr(make: Make, kafka: EmbeddedKafka) -> None:
    """The repr has the state, the connections, and the buffered and in-flight records."""
    producer = make(linger_ms=10_000)
    assert "new" in repr(producer)
    await warm(producer)
    await producer.send_and_wait("one", b"v")
    await producer.send("one", b"v")
    assert "running" in repr(producer)
    assert "1 broker connected, 1 record buffered, 0 in flight" in repr(producer)
    await producer.send("one", b"v")
    assert "2 records buffered" in repr(producer)
    await producer.close()
    assert "closed" in repr(producer)


async def test_purge(make: Make, kafka: EmbeddedKafka) -> None:
    """purge() withdraws buffered records: the deliveries are NOT_WRITTEN, nothing is sent, room comes back."""
    producer = await warm(make(linger_ms=10_000))
    deliveries = [await producer.send("one", b"v") for _ in range(5)]
    assert producer.purge() == 5
    assert {delivery.outcome for delivery in deliveries} == {Outcome.NOT_WRITTEN}
    with pytest.raises(DeliveryError, match="purge"):
        await deliveries[0]
    assert producer.stats().bytes_buffered == 0
    await producer.send_and_wait("one", b"next")
    assert values(kafka) == [b"next"]


async def test_purge_of_one_topic(make: Make, kafka: EmbeddedKafka) -> None:
    """purge(topic) leaves the others."""
    producer = await warm(make(linger_ms=10_000))
    await producer.send("one", b"v")
    await producer.send("four", b"w")
    assert (producer.purge("one"), producer.purge("one")) == (1, 0)
    await producer.flush()
    assert (values(kafka), values(kafka, "four")) == ([], [b"w"])


async def test_purge_leaves_what_was_drained(make: Make, kafka: EmbeddedKafka) -> None:
    """Records in flight are not withdrawn."""
    producer = await warm(make(linger_ms=10_000))
    hold = held_requests(kafka)
    flying = await producer.send("one", b"v")
    flying.add_done_callback(lambda _: None)
    await hold.reached()
    await producer.send("one", b"w")
    assert producer.purge() == 1
    hold.heal()
    await flying
    assert values(kafka) == [b"v"]


async def test_purge_lets_waiting_sends_in(make: Make, kafka: EmbeddedKafka) -> None:
    """The room of purged records goes to the calls that wait for it."""
    producer = await warm(make(buffer_memory=3000, linger_ms=10_000, max_in_flight_requests_per_connection=1))
    hold = held_requests(kafka)
    flying = await producer.send("four", bytes(500), partition=0)
    flying.add_done_callback(lambda _: None)
    await hold.reached()
    await producer.send("four", bytes(1800), partition=1)
    waiting = started(producer.send("four", bytes(1800), partition=2))
    await turns(3)
    producer.purge()
    await asyncio.wait_for(waiting, LIMIT)
    hold.heal()
    await producer.flush()


async def test_purge_of_nothing(producer: Producer) -> None:
    """With nothing buffered it returns 0."""
    assert producer.purge() == 0

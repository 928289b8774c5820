"""Answers of brokers other than success: refusals, splits, throttling, and missing answers (acks=0)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aioproducer import BrokerError, Outcome, Producer, RecordTooLargeError, TransactionAbortedError
from aioproducer.testing import EmbeddedKafka
from tests.net.support import (
    LIMIT,
    Make,
    all_acked,
    engine,
    in_flight,
    memory_in_use,
    numbers,
    outcomes,
    permits_are_all_back,
    send_all,
    turns,
    until,
    warm,
)

FINAL = [
    "INVALID_TOPIC_EXCEPTION", "INVALID_REQUIRED_ACKS", "TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED",
    "INVALID_TIMESTAMP", "UNSUPPORTED_FOR_MESSAGE_FORMAT", "POLICY_VIOLATION", "UNSUPPORTED_COMPRESSION_TYPE",
]  # fmt: skip


@pytest.mark.parametrize("code", FINAL)
@pytest.mark.parametrize("skip", [0, 1])
async def test_final_refusal(code: str, skip: int, producer: Producer, kafka: EmbeddedKafka) -> None:
    """A final error ends its batch only, as NOT_WRITTEN and at once; later records are written in order, none twice."""
    await producer.send_and_wait("one", b"0")
    hold = kafka.faults.delay(before=True, times=None)
    kafka.faults.error(code, skip=skip)
    deliveries = await send_all(producer, range(1, 10))
    await until(lambda: in_flight(producer) == 5)
    hold.heal()
    expected = [Outcome.ACKED] * 9
    expected[skip] = Outcome.NOT_WRITTEN
    assert await outcomes(deliveries) == expected
    error = deliveries[skip].exception()
    assert isinstance(error, BrokerError)
    assert (error.name, error.attempts) == (code, 1)
    assert numbers(kafka) == [0, *(n for n in range(1, 10) if n != skip + 1)]


async def test_unknown_server_error_is_of_unknown_fate(producer: Producer, kafka: EmbeddedKafka) -> None:
    """UNKNOWN_SERVER_ERROR is final and proves nothing; the same holds for an unknown code."""
    for code in (-1, 999):
        kafka.faults.error(code, append=True)
        delivery = await producer.send("one", b"0")
        assert await delivery.wait(LIMIT) is Outcome.UNKNOWN
    await producer.send_and_wait("one", b"1")
    assert numbers(kafka) == [0, 0, 1]


async def test_one_partition_is_refused(make: Make, kafka: EmbeddedKafka) -> None:
    """Partitions of one request have separate outcomes: one that is always refused does not hold up the others."""
    producer = await warm(make(kafka, batch_size=1), "four")
    fault = kafka.faults.error("NOT_ENOUGH_REPLICAS", topic="four", partition=2, times=None)
    stuck = await send_all(producer, range(3), "four", partition=2)
    for partition in (0, 1, 3):
        assert await all_acked(await send_all(producer, range(20), "four", partition=partition))
    assert [one.outcome for one in stuck] == [Outcome.PENDING] * 3
    fault.heal()
    assert await all_acked(stuck)
    assert numbers(kafka, "four", 2) == [0, 1, 2]


async def test_records_at_fault_are_named(make: Make, kafka: EmbeddedKafka) -> None:
    """Records that the broker names get their own message; the others are marked retriable (KIP-467)."""
    producer = await warm(make(kafka, linger_ms=20), "one")
    kafka.faults.record_errors({1: "no key"}, message="bad batch")
    deliveries = await send_all(producer, range(3))
    assert await outcomes(deliveries) == [Outcome.NOT_WRITTEN] * 3
    errors = [one.exception() for one in deliveries]
    assert [error is not None and error.retriable for error in errors] == [True, False, True]
    texts = [str(error) for error in errors]
    assert ["no key" in text for text in texts] == [False, True, False]
    assert ["part of a batch with invalid records" in text for text in texts] == [True, False, True]


@pytest.mark.parametrize("codec", ["none", "lz4"])
async def test_batch_too_large_is_split(codec: str, make: Make, kafka: EmbeddedKafka) -> None:
    """MESSAGE_TOO_LARGE: the batch is sent in parts, in order, again until they fit; no record is lost or doubled."""
    kafka.create_topic("small", max_message_bytes=400)
    producer = await warm(make(kafka, linger_ms=50, compression_type=codec), "small")
    deliveries = await send_all(producer, range(200), "small")
    assert await all_acked(deliveries)
    assert numbers(kafka, "small") == list(range(200))
    assert [one.result().offset for one in deliveries] == list(range(200))
    assert memory_in_use(producer) == 0
    await until(lambda: permits_are_all_back(producer))


async def test_split_with_others_in_flight(make: Make, kafka: EmbeddedKafka) -> None:
    """Batches behind one that must be split keep their place behind all of its parts."""
    producer = await warm(make(kafka, linger_ms=5), "one")
    await producer.send_and_wait("one", b"0")
    hold = kafka.faults.delay(before=True, times=None)
    kafka.faults.error("MESSAGE_TOO_LARGE")
    deliveries = []
    for batch in range(3):
        deliveries += await send_all(producer, range(1 + batch * 10, 11 + batch * 10))
        await until(lambda batch=batch: in_flight(producer) == batch + 1)  # type: ignore[misc]
    hold.heal()
    assert await all_acked(deliveries)
    assert numbers(kafka) == list(range(31))


async def test_too_large_for_the_broker_from_every_call(make: Make, kafka: EmbeddedKafka) -> None:
    """send_and_wait() raises it, a bulk result has it as an entry, and a transaction ends by it."""
    kafka.create_topic("small", max_message_bytes=200)
    producer = await warm(make(kafka), "small")
    with pytest.raises(RecordTooLargeError):
        await producer.send_and_wait("small", bytes(300))
    result = await (await producer.send_batch("small", [b"0", bytes(300), b"2"]))
    assert {at: isinstance(error, RecordTooLargeError) for at, error in result.errors.items()} == {1: True}
    assert (result.acked, result.not_written) == (2, 1)
    report = await producer.flush()
    assert [isinstance(error, RecordTooLargeError) for error in report.first_errors] == [True, True]
    clerk = make(kafka, transactional_id="t")
    await clerk.start()
    with pytest.raises(TransactionAbortedError) as caught:
        async with clerk.transaction():
            await clerk.send("small", bytes(300))
    assert isinstance(caught.value.cause, RecordTooLargeError)
    assert not caught.value.retriable


async def test_single_record_too_large(make: Make, kafka: EmbeddedKafka) -> None:
    """One record that the broker finds too large fails as too large; later ones are written without a gap."""
    kafka.create_topic("small", max_message_bytes=200)
    producer = await warm(make(kafka, batch_size=1), "small")
    large = await producer.send("small", bytes(300))
    assert await large.wait(LIMIT) is Outcome.NOT_WRITTEN
    error = large.exception()
    assert isinstance(error, BrokerError)
    assert isinstance(error, RecordTooLargeError)
    assert (error.code, error.name, error.setting) == (10, "MESSAGE_TOO_LARGE", "max.message.bytes")
    assert (error.topic, error.partition, error.outcome) == ("small", 0, Outcome.NOT_WRITTEN)
    assert error.size is not None
    assert 300 < error.size < 400
    assert not error.retriable
    with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
        await large
    assert await all_acked(await send_all(producer, range(5), "small"))
    assert numbers(kafka, "small") == list(range(5))


# ----- throttling


async def test_throttled_broker_is_left_alone(producer: Producer, kafka: EmbeddedKafka) -> None:
    """For `throttle_time_ms` no request is written to that broker, not even with a free permit (KIP-219)."""
    await producer.send_and_wait("one", b"0")
    hold = kafka.faults.delay(before=True, times=None)
    kafka.faults.throttle(150, mute=False)
    deliveries = await send_all(producer, range(1, 20))
    await until(lambda: in_flight(producer) == 5)
    # The pause begins with the first answer, which may arrive long before this task continues.
    start = time.monotonic()
    hold.heal()
    await deliveries[0]
    sent = producer.stats().requests
    await deliveries[4]
    await until(lambda: producer.stats().connections[0].state == "throttled")
    assert producer.stats().requests == sent
    assert await all_acked(deliveries)
    assert 0.14 <= time.monotonic() - start < 3
    assert numbers(kafka) == list(range(20))


@pytest.mark.parametrize("version", [5, 6])
async def test_a_pause_before_the_answer_is_over(make: Make, kafka: EmbeddedKafka, version: int) -> None:
    """Brokers before Kafka 2.0 pause, and answer then: another pause would make it twice as long. Both are counted."""

    def older(answer: Any) -> Any:
        keys = [one._replace(max_version=version) if one.api_key == 0 else one for one in answer.api_keys]
        return answer._replace(api_keys=keys)

    kafka.faults.alter(older, api="ApiVersions", times=None)
    producer = await warm(make(kafka), "one")
    kafka.faults.throttle(60_000, mute=False, api="Produce")
    await producer.send_and_wait("one", b"0")
    later = await producer.send("one", b"1")
    if version < 6:
        await later
    else:
        await until(lambda: producer.stats().connections[0].state == "throttled")
        assert later.outcome is Outcome.PENDING
    assert producer.stats().connections[0].throttle_seconds == pytest.approx(60, abs=1)


async def test_throttling_is_per_broker(make: Make, pair: EmbeddedKafka) -> None:
    """The throttling of one broker does not slow down another."""
    producer = await warm(make(pair), "two")
    pair.faults.throttle(60_000, broker=pair.leader_of("two", 0))
    await producer.send_and_wait("two", b"0", partition=0)
    waiting = await producer.send("two", b"1", partition=0)
    for number in range(10):
        await producer.send_and_wait("two", b"%d" % number, partition=1)
    assert waiting.outcome is Outcome.PENDING


async def test_throttled_records_still_expire(make: Make, kafka: EmbeddedKafka) -> None:
    """Throttling for longer than records live: they end at their deadline as NOT_WRITTEN."""
    producer = await warm(make(kafka, delivery_timeout_ms=200, request_timeout_ms=200), "one")
    kafka.faults.throttle(60_000)
    await producer.send_and_wait("one", b"0")
    assert await outcomes(await send_all(producer, range(1, 4))) == [Outcome.NOT_WRITTEN] * 3


async def test_throttling_ends_with_the_connection(make: Make, kafka: EmbeddedKafka) -> None:
    """A restarted broker has forgotten its throttling of an hour, and so has the producer."""
    producer = await warm(make(kafka), "one")
    kafka.faults.throttle(3_600_000, mute=False)
    await producer.send_and_wait("one", b"0")
    delivery = await producer.send("one", b"1")
    await until(lambda: producer.stats().connections[0].state == "throttled")
    kafka.faults.drop_connections(1)
    assert await delivery.wait(LIMIT) is Outcome.ACKED


# ----- acks


async def test_acks_zero(make: Make, kafka: EmbeddedKafka) -> None:
    """acks=0 is done when the bytes were handed over: offset unknown, no permit or memory held, order kept."""
    producer = await warm(make(kafka, acks=0, enable_idempotence=False, batch_size=1), "one")
    deliveries = await send_all(producer, range(200))
    assert await all_acked(deliveries)
    assert {one.result().offset for one in deliveries} == {-1}
    await until(lambda: len(numbers(kafka)) == 200)
    assert numbers(kafka) == list(range(200))
    assert permits_are_all_back(producer)
    assert memory_in_use(producer) == 0
    assert in_flight(producer) == 0


async def fill_the_socket(make: Make, kafka: EmbeddedKafka) -> tuple[Producer, int]:
    """A producer with acks=0 whose broker does not read: the last acknowledged records wait for room in the socket."""
    producer = await warm(
        make(kafka, acks=0, enable_idempotence=False, send_buffer_bytes=20_000, receive_buffer_bytes=20_000),
        "one",
    )
    await producer.send_and_wait("one", b"0")
    await until(lambda: len(kafka.records("one")) == 1)
    kafka.faults.stop_reading(broker=1)
    senders = engine(producer).senders.values()
    sent = 1
    while not any(sender.link and sender.link.connection.unsent for sender in senders):
        await producer.send_and_wait("one", b"%d" % sent + bytes(200_000))
        sent += 1
    return producer, sent


async def test_closing_waits_until_the_socket_has_unanswered_bytes(make: Make, kafka: EmbeddedKafka) -> None:
    """With acks=0 a slow broker gets all acknowledged records, though the last still wait for room in the socket."""
    producer, sent = await fill_the_socket(make, kafka)
    closing = asyncio.create_task(producer.close())
    await turns(20)
    assert not closing.done()
    kafka.faults.heal()
    await closing
    await until(lambda: len(kafka.records("one")) == sent)


async def test_the_sender_of_a_broker_that_has_left_hands_over_unanswered_bytes(
    make: Make, kafka: EmbeddedKafka
) -> None:
    """With acks=0 the connection to a broker that has left the cluster ends only when the socket has all its bytes."""
    producer, sent = await fill_the_socket(make, kafka)
    (sender,) = engine(producer).senders.values()
    assert not sender.end_if_idle()
    kafka.faults.heal()
    await until(lambda: len(kafka.records("one")) == sent)
    assert sender.end_if_idle()


async def test_acks_zero_and_a_broker_that_hangs_up(make: Make, kafka: EmbeddedKafka) -> None:
    """With acks=0 the only sign of an error is the end of the connection: the next records use a new one."""
    producer = await warm(make(kafka, acks=0, enable_idempotence=False, batch_size=1), "one")
    fault = kafka.faults.error("NOT_LEADER_OR_FOLLOWER")
    await producer.send_and_wait("one", b"0")
    await fault.reached()
    await until(lambda: producer.stats().connections[0].state != "connected")
    await producer.send_and_wait("one", b"1")
    await until(lambda: numbers(kafka) == [1])


async def test_acks_one(make: Make, kafka: EmbeddedKafka) -> None:
    """acks=1 requests the leader's answer only, which has the offset."""
    producer = await warm(make(kafka, acks=1, enable_idempotence=False), "one")
    kafka.faults.shrink_isr("one", 0, 1)
    assert (await producer.send_and_wait("one", b"0")).offset == 0


async def test_answer_that_names_a_partition_twice(make: Make, kafka: EmbeddedKafka) -> None:
    """The first of two results for a partition counts, and the connection is given up."""
    producer = await warm(make(kafka), "one")

    def doubled(answer: object) -> object:
        (topic,) = answer.responses  # type: ignore[attr-defined]
        (partition,) = topic.partition_responses
        other = partition._replace(error_code=87)
        return answer._replace(responses=[topic._replace(partition_responses=[partition, other])])  # type: ignore[attr-defined]

    kafka.faults.alter(doubled)
    assert (await producer.send_and_wait("one", b"0")).offset == 0
    assert (await producer.send_and_wait("one", b"1")).offset == 1
    assert producer.stats().connections[0].connects == 2
    assert permits_are_all_back(producer)


async def test_broker_that_wants_newer_requests_than_topics_have_ids(
    make: Make, kafka: EmbeddedKafka
) -> None:
    """A broker that takes Produce by topic id only, and metadata without ids: records wait, and fail with that reason."""
    kafka.limit_version("Metadata", 0, 9)
    kafka.limit_version("Produce", 13, 13)
    producer = await warm(make(kafka, delivery_timeout_ms=200, request_timeout_ms=200), "one")
    delivery = await producer.send("one", b"0")
    assert await delivery.wait(LIMIT) is Outcome.NOT_WRITTEN
    assert "supports Produce v13-v13" in str(getattr(delivery.exception(), "cause", ""))
    assert engine(producer).supervisor.crashed is None
    assert permits_are_all_back(producer)


@pytest.mark.parametrize("refused", [None, "one", "four"])
async def test_one_answer_for_several_topics(refused: str | None, make: Make, kafka: EmbeddedKafka) -> None:
    """Each partition of each topic gets its own answer, also behind a refused one."""
    producer = await warm(make(kafka, linger_ms=10_000), "one")
    await producer.partitions_for("four")
    for topic, partition in (("one", 0), ("four", 0), ("four", 1), ("four", 2)):
        await producer.send_and_wait(topic, b"0", partition=partition)
    if refused is not None:
        kafka.faults.error("INVALID_TIMESTAMP", topic=refused)
    sent = producer.stats().requests
    deliveries = {
        ("one", 0): await producer.send("one", b"1", partition=0),
        ("four", 0): await producer.send("four", b"1", partition=0),
        ("four", 1): await producer.send("four", b"1", partition=1),
        ("four", 2): await producer.send("four", b"1", partition=2),
    }
    await producer.flush()
    assert producer.stats().requests == sent + 1
    lost = {place for place, delivery in deliveries.items() if delivery.outcome is Outcome.NOT_WRITTEN}
    acked = {place for place, delivery in deliveries.items() if delivery.outcome is Outcome.ACKED}
    assert {topic for topic, _ in lost} == ({refused} if refused is not None else set())
    assert lost | acked == set(deliveries)

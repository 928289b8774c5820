"""Real failures: errors have their facts, outcomes are true."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from aioproducer import (
    BrokerError,
    BrokerUnavailableError,
    DeliveryError,
    DeliveryTimeoutError,
    KafkaError,
    Outcome,
    Producer,
    TimestampType,
)
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import LIMIT, held_answers, until, values, warm


async def failure(producer: Producer, timeout: float | None = None) -> DeliveryError:
    """The error of one record."""
    with pytest.raises(DeliveryError) as caught:
        await asyncio.wait_for(await producer.send("one", b"v", timeout=timeout), LIMIT)
    return caught.value


async def test_broker_error(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A refusal of the broker has its code, Kafka's name, the broker, topic, partition and attempts."""
    kafka.faults.error("INVALID_REQUIRED_ACKS")
    error = await failure(producer)
    assert isinstance(error, BrokerError)
    assert (error.code, error.name) == (21, "INVALID_REQUIRED_ACKS")
    assert (error.topic, error.partition, error.attempts) == ("one", 0, 1)
    assert (error.outcome, error.retriable) == (Outcome.NOT_WRITTEN, False)
    assert error.broker is not None
    assert 0 <= (error.elapsed or 0) < LIMIT
    assert all(fact in str(error) for fact in ("INVALID_REQUIRED_ACKS", "one", "21", "not written"))
    assert values(kafka) == []


async def test_broker_error_with_an_unknown_number(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A code that no table has appears by its number in the error; it never becomes another error."""
    kafka.faults.error(4242)
    error = await failure(producer)
    assert isinstance(error, BrokerError)
    assert error.code == 4242
    assert "4242" in str(error)


async def test_not_authorized(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A topic without write permission gives a DeliveryError that names the permission."""
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED")
    error = await failure(producer)
    assert error.outcome is Outcome.NOT_WRITTEN
    assert "TOPIC_AUTHORIZATION_FAILED" in str(error)


async def test_errors_can_be_pickled(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A real error survives pickling with its facts."""
    kafka.faults.error("INVALID_REQUIRED_ACKS", message="said the broker")
    error = await failure(producer)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.topic, copy.outcome, copy.code) == (
        type(error),
        str(error),
        "one",
        Outcome.NOT_WRITTEN,
        21,
    )


async def test_retries_are_counted_out(make: Make, kafka: EmbeddedKafka) -> None:
    """With `retries`, the last error is the cause when the retries are used up."""
    producer = await warm(make(retries=2, retry_backoff_ms=1))
    fault = kafka.faults.error("NOT_ENOUGH_REPLICAS", times=None)
    error = await failure(producer)
    assert (fault.hits, error.attempts, error.outcome) == (3, 3, Outcome.NOT_WRITTEN)
    assert isinstance(error, BrokerError) or isinstance(error.cause, BrokerError)
    assert error.retriable


async def test_delivery_timeout_of_a_refused_record(make: Make, kafka: EmbeddedKafka) -> None:
    """A record that is refused until its time is over is NOT_WRITTEN, with the last error as cause."""
    # Time enough for an answer on a busy machine, on a connection that is there.
    producer = await warm(make(retry_backoff_ms=1, delivery_timeout_ms=500, request_timeout_ms=400))
    await producer.send_and_wait("one", b"before", timeout=LIMIT)
    kafka.faults.error("NOT_ENOUGH_REPLICAS", times=None)
    error = await failure(producer)
    assert isinstance(error, DeliveryTimeoutError)
    assert isinstance(error, TimeoutError)
    assert (error.outcome, error.retriable) == (Outcome.NOT_WRITTEN, True)
    assert isinstance(error.cause, BrokerError)
    assert values(kafka) == [b"before"]


async def test_timeout_of_one_record(producer: Producer, kafka: EmbeddedKafka) -> None:
    """`timeout` of a call ends that record alone; other records of its batch are still sent."""
    # Its connection is there: the next records are written within their time, also on a busy machine.
    await producer.send_and_wait("one", b"before")
    hold = held_answers(kafka)
    patient = await producer.send("one", b"patient")
    error = await failure(producer, timeout=0.3)
    assert isinstance(error, DeliveryTimeoutError)
    assert (error.outcome, patient.outcome) == (Outcome.UNKNOWN, Outcome.PENDING)
    hold.heal()
    assert (await patient).offset == 1


async def test_timeout_before_the_first_write(make: Make, kafka: EmbeddedKafka) -> None:
    """A record whose time is over before its batch left is NOT_WRITTEN and not in the batch."""
    producer = await warm(make(linger_ms=10_000))
    first = await producer.send("one", b"first")
    short = await producer.send("one", b"short", timeout=0.03)
    last = await producer.send("one", b"last")
    await until(short.done)
    await producer.flush()
    assert (first.outcome, short.outcome, last.outcome) == (
        Outcome.ACKED,
        Outcome.NOT_WRITTEN,
        Outcome.ACKED,
    )
    assert values(kafka) == [b"first", b"last"]
    assert (first.result().offset, last.result().offset) == (0, 1)


async def test_timeout_of_a_partition_without_a_leader(make: Make, kafka: EmbeddedKafka) -> None:
    """The error has the reason, though no request was made for the record; so has that of close()."""
    kafka.faults.move_leader("four", 2, -1)
    producer = await warm(make())
    short = await producer.send("four", b"short", partition=2, timeout=0.03)
    long = await producer.send("four", b"long", partition=2)
    await until(short.done)
    await producer.close(timeout=0)
    for delivery, kind in ((short, DeliveryTimeoutError), (long, DeliveryError)):
        error = delivery.exception()
        assert isinstance(error, kind)
        assert isinstance(error.cause, BrokerError)
        assert error.cause.name == "LEADER_NOT_AVAILABLE"
        assert "the partition has no leader" in str(error)


@pytest.mark.parametrize("how", ["refused", "silent"])
async def test_timeout_without_a_producer_id(make: Make, kafka: EmbeddedKafka, how: str) -> None:
    """No request is made for the record; the error and health() have the reason, until there is a producer id."""
    if how == "refused":
        fault = kafka.faults.error("COORDINATOR_NOT_AVAILABLE", api="InitProducerId", times=None)
    else:
        fault = kafka.faults.silence(api="InitProducerId", times=None)
    told = "no broker has given a producer id: "
    producer = await warm(make(retry_backoff_ms=1, retry_backoff_max_ms=5, request_timeout_ms=50))
    await until(lambda: any(problem.startswith(told) for problem in producer.health().problems))
    delivery = await producer.send("one", b"v", timeout=0.1)
    await until(delivery.done)
    error = delivery.exception()
    assert isinstance(error, DeliveryTimeoutError)
    reason = {"refused": "COORDINATOR_NOT_AVAILABLE", "silent": "no answer within"}[how]
    assert reason in str(error)
    # A connection that was given up because of it is a reason as well.
    assert how == "silent" or told.strip(": ") in str(error)
    assert any(problem.startswith(told + reason) for problem in producer.health().problems)
    fault.heal()
    await producer.send_and_wait("one", b"w", timeout=LIMIT)
    assert not any(problem.startswith(told) for problem in producer.health().problems)


async def test_longer_timeout_of_one_record(make: Make, kafka: EmbeddedKafka) -> None:
    """A longer `timeout` of a call keeps that record alive beyond delivery_timeout_ms."""
    producer = await warm(
        make(linger_ms=0, request_timeout_ms=100, delivery_timeout_ms=100, retry_backoff_ms=1)
    )
    fault = kafka.faults.error("NOT_ENOUGH_REPLICAS", times=None)
    short = await producer.send("one", b"short")
    long = await producer.send("one", b"long", timeout=30)
    # The record's bytes have left with the batch, which is still sent: whether they will be written is unknown.
    assert await short.wait(LIMIT) in {Outcome.UNKNOWN, Outcome.NOT_WRITTEN}
    assert long.outcome is Outcome.PENDING
    fault.heal()
    assert await long.wait(LIMIT) is Outcome.ACKED
    assert values(kafka)[-1] == b"long"


async def test_message_too_large_for_the_broker(producer: Producer, kafka: EmbeddedKafka) -> None:
    """One record above the topic's limit is NOT_WRITTEN, and the text names the setting of the topic."""
    kafka.create_topic("small", 1, max_message_bytes=1000)
    with pytest.raises(DeliveryError, match="MESSAGE_TOO_LARGE") as caught:
        await producer.send_and_wait("small", bytes(5000))
    assert caught.value.outcome is Outcome.NOT_WRITTEN
    assert "max.message.bytes" in f"{caught.value} {caught.value.cause}"


async def test_health_while_a_broker_is_down(make: Make, kafka: EmbeddedKafka) -> None:
    """The last error of a producer that cannot connect names the broker's address."""
    producer = await warm(make())
    await producer.send_and_wait("one", b"0")
    await kafka.faults.stop_broker(1)
    await producer.send("one", b"1")
    await until(lambda: isinstance(producer.health().last_error, BrokerUnavailableError))
    health = producer.health()
    assert health.connected_brokers == 0
    assert str(kafka.brokers[0].port) in str(health.last_error)
    await kafka.faults.start_broker(1)


async def test_log_append_time(producer: Producer, kafka: EmbeddedKafka) -> None:
    """With the broker's clock in force, the metadata says so and has its time."""
    kafka.create_topic("stamped", 1, message_timestamp_type="LogAppendTime")
    metadata = await producer.send_and_wait("stamped", b"v", timestamp=1)
    assert metadata.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert metadata.timestamp > 1_600_000_000_000


async def test_every_error_is_of_the_one_tree(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Every exception of a delivery is a KafkaError."""
    for name in (
        "CORRUPT_MESSAGE",
        "INVALID_TIMESTAMP",
        "POLICY_VIOLATION",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    ):
        with kafka.faults.error(name, times=3):
            delivery = await producer.send("one", b"v", timeout=5)
            outcome = await delivery.wait(LIMIT)
        error = delivery.exception()
        assert outcome is Outcome.ACKED or isinstance(error, KafkaError)

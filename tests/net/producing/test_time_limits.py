"""Deadlines of records, requests and connections: which passes when, and the error that it gives."""

from __future__ import annotations

import asyncio
import time

import pytest

from aioproducer import DeliveryTimeoutError, Outcome, Producer
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
    until,
    warm,
)
from tests.net.transactional import MovableClock

SHORT = {"delivery_timeout_ms": 300, "request_timeout_ms": 200}
SKIPPED = 20.0
"""Seconds of a record, which the test skips when the record is as far as needed: less than the request timeout."""


async def test_request_timeout_closes_the_connection_and_all_is_sent_again(
    make: Make, kafka: EmbeddedKafka
) -> None:
    """A request without an answer ends its connection; all five go out again on a new one, in order."""
    producer = await warm(make(kafka, batch_size=1, request_timeout_ms=150), "one")
    await producer.send_and_wait("one", b"0")
    fault = kafka.faults.silence(api="Produce", times=1)
    deliveries = await send_all(producer, range(1, 20))
    await fault.reached()
    assert await all_acked(deliveries)
    assert numbers(kafka) == list(range(20))
    connection, _ = producer.stats().connections
    assert connection.connects == 2
    assert permits_are_all_back(producer)


async def test_lost_answer_after_the_append(make: Make, kafka: EmbeddedKafka) -> None:
    """An answer that never comes, of a batch that was written: it is acknowledged with its offset, and not doubled."""
    producer = await warm(make(kafka, batch_size=1, request_timeout_ms=150), "one")
    await producer.send_and_wait("one", b"0")
    kafka.faults.drop_answer(times=3)
    deliveries = await send_all(producer, range(1, 10))
    assert await all_acked(deliveries)
    assert [one.result().offset for one in deliveries] == list(range(1, 10))
    assert numbers(kafka) == list(range(10))


async def test_timeout_names_broker_and_cause(make: Make, kafka: EmbeddedKafka) -> None:
    """The error of a record without an answer has the elapsed time, the number of attempts and the problem."""
    producer = await warm(make(kafka, **SHORT), "one")
    kafka.faults.silence(api="Produce")
    delivery = await producer.send("one", b"0")
    assert await delivery.wait(LIMIT) is Outcome.UNKNOWN
    error = delivery.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert error.retriable
    assert "request timed out" in str(error.cause)
    assert "may have been written" in str(error)


async def test_in_flight_at_the_deadline_is_unknown(make: Make, kafka: EmbeddedKafka) -> None:
    """Records that were written and have no answer at their deadline are UNKNOWN, at that time, not at the request timeout."""
    producer = await warm(make(kafka, delivery_timeout_ms=300, request_timeout_ms=300), "one")
    hold = kafka.faults.delay(times=None)
    start = time.monotonic()
    delivery = await producer.send("one", b"0")
    await hold.reached()
    assert await delivery.wait(LIMIT) is Outcome.UNKNOWN
    assert 0.29 <= time.monotonic() - start < 3
    assert memory_in_use(producer) == 0


async def test_never_sent_at_the_deadline_is_not_written(make: Make, kafka: EmbeddedKafka) -> None:
    """Records that never left because the broker is down are NOT_WRITTEN at their deadline; memory comes back."""
    producer = await warm(make(kafka, **SHORT), "one")
    await kafka.faults.stop_broker(1)
    deliveries = await send_all(producer, range(5))
    assert set(await outcomes(deliveries)) == {Outcome.NOT_WRITTEN}
    error = deliveries[0].exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert memory_in_use(producer) == 0
    assert numbers(kafka) == []


async def test_behind_silent_requests_is_not_written(make: Make, kafka: EmbeddedKafka) -> None:
    """Of ten records five are in flight: they are UNKNOWN at their deadline, the other five NOT_WRITTEN."""
    producer = await warm(make(kafka, batch_size=1, **SHORT), "one")
    await producer.send_and_wait("one", b"0")
    kafka.faults.silence(api="Produce")
    deliveries = await send_all(producer, range(1, 11))
    assert await outcomes(deliveries) == [Outcome.UNKNOWN] * 5 + [Outcome.NOT_WRITTEN] * 5


async def test_refused_until_the_deadline_is_not_written(
    loop_clock: MovableClock, make: Make, kafka: EmbeddedKafka
) -> None:
    """A batch that was refused each time by an answer that proves it is NOT_WRITTEN, however often it was sent."""
    producer = await warm(make(kafka), "one")
    fault = kafka.faults.error("NOT_ENOUGH_REPLICAS", times=None)
    delivery = await producer.send("one", b"0", timeout=SKIPPED)
    await fault.reached(2)
    await until(lambda: in_flight(producer) == 0)
    loop_clock.skip(SKIPPED)
    assert await delivery.wait(LIMIT) is Outcome.NOT_WRITTEN
    error = delivery.exception()
    assert "NOT_ENOUGH_REPLICAS" in str(getattr(error, "cause", None))


async def test_ambiguous_answers_until_the_deadline_are_unknown(make: Make, kafka: EmbeddedKafka) -> None:
    """A batch that may have been appended once is UNKNOWN, for any later answers."""
    producer = await warm(make(kafka, **SHORT), "one")
    kafka.faults.error("NOT_ENOUGH_REPLICAS_AFTER_APPEND")
    kafka.faults.error("NOT_ENOUGH_REPLICAS", skip=1, times=None)
    delivery = await producer.send("one", b"0")
    assert await delivery.wait(LIMIT) is Outcome.UNKNOWN
    assert numbers(kafka) == [0]


async def test_goes_on_after_an_unknown_outcome(make: Make, kafka: EmbeddedKafka) -> None:
    """After a batch of unknown outcome the partition continues under a new epoch, in order, with nothing twice."""
    producer = await warm(make(kafka, batch_size=1, **SHORT), "one")
    await producer.send_and_wait("one", b"0")
    fault = kafka.faults.silence(api="Produce")
    lost = await send_all(producer, range(1, 8))
    await outcomes(lost)
    fault.heal()
    assert await all_acked(await send_all(producer, range(8, 20)))
    assert numbers(kafka) == [0, *range(8, 20)]
    epochs = [batch.producer_epoch for request in kafka.requests for batch in request.batches]
    assert epochs[-1] > epochs[0]


async def test_late_answers_change_nothing(
    loop_clock: MovableClock, make: Make, kafka: EmbeddedKafka
) -> None:
    """An answer that comes after the record was given up is read and ignored; the connection stays in use."""
    producer = await warm(make(kafka), "one")
    hold = kafka.faults.delay()
    delivery = await producer.send("one", b"0", timeout=SKIPPED)
    await hold.reached()
    loop_clock.skip(SKIPPED)
    assert await delivery.wait(LIMIT) is Outcome.UNKNOWN
    hold.release()
    assert (await producer.send_and_wait("one", b"1")).offset == 1
    assert delivery.outcome is Outcome.UNKNOWN
    connection, _ = producer.stats().connections
    assert connection.connects == 1


async def test_records_own_deadline_ends_it_alone(
    loop_clock: MovableClock, make: Make, kafka: EmbeddedKafka
) -> None:
    """`timeout` of one record ends that record only; other records of its batch are still sent."""
    producer = await warm(make(kafka, linger_ms=20), "one")
    hold = kafka.faults.delay(before=True)
    first = await producer.send("one", b"0")
    second = await producer.send("one", b"1", timeout=SKIPPED)
    await hold.reached()
    loop_clock.skip(SKIPPED)
    assert await second.wait(LIMIT) is Outcome.UNKNOWN
    assert first.outcome is Outcome.PENDING
    hold.release()
    assert await first.wait(LIMIT) is Outcome.ACKED


async def test_setup_timeout(make: Make, kafka: EmbeddedKafka) -> None:
    """A broker that accepts connections and never answers fails at the set-up timeout, and is tried again."""
    silence = kafka.faults.silence(api="ApiVersions", times=2)
    producer = make(kafka, socket_connection_setup_timeout_ms=50, socket_connection_setup_timeout_max_ms=50)
    await producer.start()
    assert (await producer.send_and_wait("one", b"0", max_block=5)).offset == 0
    assert silence.hits == 2


async def test_idle_connections_are_closed(make: Make, kafka: EmbeddedKafka) -> None:
    """Connections without traffic for `connections_max_idle_ms` are closed, and opened again when there is work."""
    producer = await warm(make(kafka, connections_max_idle_ms=60), "one")
    await producer.send_and_wait("one", b"0")
    await until(lambda: kafka.brokers[0].connections == 0)
    assert producer.health().connected_brokers == 0
    assert (await producer.send_and_wait("one", b"1")).offset == 1


async def test_broker_that_closes_idle_connections(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A connection that the broker closed while idle costs one more connect, and no call fails."""
    await producer.send_and_wait("one", b"0")
    for number in range(1, 4):
        kafka.faults.drop_connections(1, reset=False)
        assert (await producer.send_and_wait("one", b"%d" % number)).offset == number
    assert producer.stats().records_failed == 0


async def test_peer_that_stops_reading(make: Make, kafka: EmbeddedKafka) -> None:
    """A broker that stops reading: the transport's buffer stays small, and the request timeout ends the connection."""
    producer = await warm(
        make(kafka, request_timeout_ms=300, send_buffer_bytes=4096, batch_size=100_000), "one"
    )
    await producer.send_and_wait("one", b"0")
    stop = kafka.faults.stop_reading(broker=1)
    deliveries = [await producer.send("one", (b"%d" % n).ljust(900_000)) for n in range(1, 9)]
    link = engine(producer).senders[1].link
    assert link is not None
    await until(lambda: in_flight(producer) > 0)
    transport = link.connection.transport
    assert transport is not None
    biggest = 1_100_000
    for _ in range(50):
        await asyncio.sleep(0)
        assert transport.get_write_buffer_size() <= biggest + 64 * 1024
    await until(lambda: link.connection.closed)
    stop.heal()
    assert await all_acked(deliveries)
    assert numbers(kafka) == list(range(9))


@pytest.mark.parametrize("strategy", ["none", "rebootstrap"])
async def test_everything_down_and_back(strategy: str, make: Make, pair: EmbeddedKafka) -> None:
    """With all brokers down longer than the records' deadline: they fail in time, and the producer recovers by itself."""
    producer = await warm(make(pair, metadata_recovery_strategy=strategy, **SHORT), "two")
    await send_all(producer, range(2), "two", partition=0)
    await producer.flush()
    for broker in (1, 2):
        await pair.faults.stop_broker(broker)
    lost = [*await send_all(producer, range(2, 4), "two", partition=0)]
    assert set(await outcomes(lost)) <= {Outcome.NOT_WRITTEN, Outcome.UNKNOWN}
    for broker in (1, 2):
        await pair.faults.start_broker(broker)
    assert await all_acked(await send_all(producer, range(4, 8), "two", partition=0))
    assert numbers(pair, "two", 0)[-4:] == [4, 5, 6, 7]

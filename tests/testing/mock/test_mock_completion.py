"""MockProducer follows the test: it completes records, and fails records to come."""

from __future__ import annotations

import asyncio
import random

import pytest

from aioproducer import (
    BrokerError,
    BufferFullError,
    DeliveryError,
    DeliveryTimeoutError,
    Outcome,
    RecordMetadata,
    RecordTooLargeError,
    StateError,
)
from aioproducer.errors import AuthorizationError
from aioproducer.testing import MockProducer
from tests.simulation.loop import SimulatedLoop
from tests.testing.accepted import values

# -- completion by the test


async def test_records_wait_for_the_test(manual: MockProducer) -> None:
    """Without auto_complete a record is pending until it is completed, oldest first."""
    first, second = await manual.send("orders", b"1"), await manual.send("orders", b"2")
    assert (first.outcome, len(manual.pending)) == (Outcome.PENDING, 2)
    assert manual.complete_next().value == b"1"
    assert (first.outcome, second.outcome) == (Outcome.ACKED, Outcome.PENDING)
    assert manual.complete_all() == 1
    assert (await second).offset == 1


async def test_one_topic_can_be_completed(manual: MockProducer) -> None:
    """Completion can be limited to one topic, as if only its leader had answered."""
    await manual.send("orders", b"1")
    await manual.send("audit", b"2")
    assert manual.complete_next("audit").value == b"2"
    assert manual.complete_all("audit") == 0
    assert [record.topic for record in manual.pending] == ["orders"]


async def test_nothing_to_complete_is_an_error(mock: MockProducer, manual: MockProducer) -> None:
    """Completing a missing record raises an error that says how to correct the test."""
    with pytest.raises(StateError, match="wait_pending"):
        manual.complete_next()
    with pytest.raises(StateError, match="fail_delivery"):
        mock.fail_next(DeliveryError())


async def test_wait_pending_waits_for_the_code_under_test(manual: MockProducer) -> None:
    """A test can wait until the code under test has sent a number of records."""

    async def send() -> RecordMetadata:
        return await manual.send_and_wait("orders", b"")

    sends = [asyncio.create_task(send()) for _ in range(2)]
    assert manual.pending == ()
    await manual.wait_pending(2)
    manual.complete_all()
    assert [metadata.offset for metadata in await asyncio.gather(*sends)] == [0, 1]


async def test_failed_record_takes_no_offset(manual: MockProducer) -> None:
    """A failed record is in the history, but not among the written ones, and leaves no gap."""
    failed, written = await manual.send("orders", b"1"), await manual.send("orders", b"2")
    error = DeliveryError("gone", topic="orders", partition=0, outcome=Outcome.UNKNOWN)
    assert manual.fail_next(error).value == b"1"
    manual.complete_next()
    assert (str(failed.exception()), failed.outcome) == (str(error), Outcome.UNKNOWN)
    assert (await written).offset == 0
    assert values(manual) == [b"1", b"2"]
    assert [record.value for record in manual.written] == [b"2"]


async def test_other_errors_become_causes(manual: MockProducer) -> None:
    """An exception of another type becomes the cause of a DeliveryError, as with the real producer."""
    delivery = await manual.send("orders", b"")
    assert manual.fail_all(AuthorizationError("no ACL")) == 1
    with pytest.raises(DeliveryError) as caught:
        await delivery
    assert isinstance(caught.value.cause, AuthorizationError)
    assert (caught.value.topic, caught.value.partition) == ("orders", 0)


async def test_failing_with_a_success_is_refused(manual: MockProducer) -> None:
    """An error with the outcome ACKED cannot fail a record; the call changes nothing."""
    await manual.send("orders", b"")
    with pytest.raises(ValueError, match="ACKED"):
        manual.fail_next(DeliveryError(outcome=Outcome.ACKED))
    assert len(manual.pending) == 1


async def test_try_cancel_withdraws_what_is_pending(mock: MockProducer, manual: MockProducer) -> None:
    """A pending record can be withdrawn; a written one cannot."""
    assert not (await mock.send("orders", b"")).try_cancel()
    delivery = await manual.send("orders", b"")
    assert delivery.try_cancel()
    assert (delivery.outcome, manual.pending) == (Outcome.NOT_WRITTEN, ())
    assert not delivery.try_cancel()


async def test_purge_withdraws_by_topic(manual: MockProducer) -> None:
    """purge() withdraws the pending records of one topic or of all."""
    for topic in ("orders", "audit", "orders"):
        await manual.send(topic, b"")
    assert (manual.purge("orders"), manual.purge(), manual.purge()) == (2, 1, 0)


async def test_timeout_of_a_record_counts(manual: MockProducer) -> None:
    """A record that is never completed fails after its `timeout`, as with a real broker that does not answer."""
    delivery = await manual.send("orders", b"", timeout=0.001)
    with pytest.raises(DeliveryTimeoutError) as caught:
        await delivery
    assert caught.value.outcome is Outcome.NOT_WRITTEN


async def test_memory_is_limited() -> None:
    """Pending records take buffer_memory; a record over the limit is refused, and completing makes room."""
    async with MockProducer(auto_complete=False, buffer_memory=1000, max_request_size=1000) as mock:
        await mock.send("orders", bytes(800))
        with pytest.raises(BufferFullError):
            mock.send_nowait("orders", bytes(800))
        mock.complete_all()
        await mock.send("orders", bytes(800))
        mock.complete_all()
    assert len(mock.written) == 2


# -- ordered failures


async def test_refused_sends(mock: MockProducer) -> None:
    """fail_send() refuses the next records without accepting them; later records are accepted as before."""
    error = BufferFullError(topic="orders")
    mock.fail_send(error, times=2)
    for send in (mock.send, mock.send_and_wait):
        with pytest.raises(BufferFullError) as caught:
            await send("orders", b"")
        assert caught.value is error
    await mock.send("orders", b"third")
    assert values(mock) == [b"third"]


async def test_refused_send_nowait(mock: MockProducer) -> None:
    """send_nowait() raises the ordered error from the call."""
    mock.fail_send(BufferFullError())
    with pytest.raises(BufferFullError):
        mock.send_nowait("orders", b"")


async def test_refused_before_a_serializer_is_awaited() -> None:
    """An ordered refusal ends the call before its coroutine serializer is called."""

    async def serialize(data: bytes) -> bytes:
        raise AssertionError

    async with MockProducer(value_serializer=serialize) as mock:
        error = BufferFullError()
        mock.fail_send(error)
        with pytest.raises(BufferFullError) as caught:
            await mock.send("orders", b"")
    assert caught.value is error


async def test_only_errors_of_the_library_are_raised_by_send(mock: MockProducer) -> None:
    """An order that the real send() could not carry out is an error of the test."""
    with pytest.raises(TypeError, match="KafkaError"):
        mock.fail_send(OSError())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="exception"):
        mock.fail_delivery(KeyboardInterrupt())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="NOT_WRITTEN"):
        mock.fail_send(DeliveryTimeoutError(outcome=Outcome.UNKNOWN))
    with pytest.raises(ValueError, match="times"):
        mock.fail_send(BufferFullError(), times=0)


async def test_failures_of_deliveries_to_come(mock: MockProducer) -> None:
    """fail_delivery() fails accepted records of one topic until it is cleared; records of other topics are written."""
    mock.fail_delivery(DeliveryTimeoutError(outcome=Outcome.UNKNOWN), "orders", times=None)
    fates = [(await mock.send(topic, b"")).outcome for topic in ("orders", "audit", "orders")]
    assert fates == [Outcome.UNKNOWN, Outcome.ACKED, Outcome.UNKNOWN]
    mock.clear()
    assert (await mock.send("orders", b"")).outcome is Outcome.ACKED


async def test_a_record_that_the_broker_finds_too_large(mock: MockProducer) -> None:
    """As with the real producer, the delivery's error can be caught as too large."""
    mock.fail_delivery(RecordTooLargeError(size=900_000))
    with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes|MESSAGE_TOO_LARGE") as caught:
        await mock.send_and_wait("orders", b"")
    assert isinstance(caught.value, BrokerError)
    assert (caught.value.code, caught.value.size, caught.value.topic) == (10, 900_000, "orders")


async def test_failures_can_be_ordered_before_start() -> None:
    """A test can order everything before the code under test starts the producer."""
    mock = MockProducer()
    mock.fail_send(BufferFullError())
    async with mock:
        with pytest.raises(BufferFullError):
            await mock.send("orders", b"")


# -- waiting and inspection


async def test_flush_reports_since_the_last_one(mock: MockProducer) -> None:
    """The report has each record once; raise_for_errors() raises when a record failed."""
    mock.fail_delivery(DeliveryTimeoutError())
    await mock.send("orders", b"")
    await mock.send("orders", b"")
    report = await mock.flush()
    assert (report.acked, report.not_written, len(report.first_errors)) == (1, 1, 1)
    with pytest.raises(DeliveryError):
        report.raise_for_errors()
    (await mock.flush()).raise_for_errors()


async def test_stats_and_health_tell_what_the_mock_holds(manual: MockProducer) -> None:
    """Counters and gauges follow the records."""
    await manual.send("orders", b"1")
    await manual.send("orders", b"2")
    manual.fail_next(DeliveryTimeoutError())
    stats, health = manual.stats(), manual.health()
    assert (stats.records_accepted, stats.records_failed, stats.records_buffered) == (2, 1, 1)
    assert stats.failed_by_error == {"DeliveryTimeoutError": 1}
    assert isinstance(health.last_error, DeliveryTimeoutError)
    assert health.oldest_unacked_seconds is not None
    manual.complete_all()
    assert manual.stats().bytes_buffered == 0
    assert manual.health().seconds_since_last_ack is not None


async def test_a_loop_of_sends_lets_others_run(mock: MockProducer) -> None:
    """An endless loop of sends does not starve the event loop, as with the real producer."""
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(0.005, stop.set)
    while not stop.is_set():
        await mock.send("orders", b"")
    assert mock.history


async def test_all_that_is_pending_fails_in_gapless_mode() -> None:
    """The first failure ends the records behind it in its partition, which do not fail twice."""
    async with MockProducer(auto_complete=False, gapless=True) as mock:
        deliveries = [mock.send_nowait("orders", b"%d" % number) for number in range(3)]
        assert mock.fail_all(DeliveryTimeoutError()) == 3
        errors = [delivery.exception() for delivery in deliveries]
        assert isinstance(errors[0], DeliveryTimeoutError)
        assert all(isinstance(error, DeliveryError) for error in errors)
        assert mock.pending == ()
        assert mock.stats().records_failed == 3


def test_in_virtual_time() -> None:
    """Times come from the loop's clock, the only one that agrees with a clock that a test moves."""

    async def life() -> None:
        loop = asyncio.get_running_loop()
        async with MockProducer(
            auto_complete=False, delivery_timeout_ms=60_000, request_timeout_ms=1_000
        ) as mock:
            sent_at = loop.time()
            delivery = await mock.send("orders", b"")
            assert mock.stats().oldest_unacked_seconds == pytest.approx(0, abs=0.1)
            await delivery.wait()
            assert loop.time() == pytest.approx(sent_at + 60, abs=0.1)
            with pytest.raises(DeliveryTimeoutError, match="not written"):
                delivery.result()

    loop = SimulatedLoop(random.Random(7))
    loop.run_until_complete(life())
    assert not loop.troubles
    loop.close()

"""`flush()`: all records accepted before it are resolved, and the report counts those that ended since the last one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer import BrokerError, Delivery, DeliveryError, FlushReport, Outcome, Producer
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import LIMIT, held_requests, started, unknown_topic, until, values, warm

REFUSED = "INVALID_REQUIRED_ACKS"


async def test_everything_is_resolved(producer: Producer, kafka: EmbeddedKafka) -> None:
    """After flush() every delivery from before has its outcome."""
    deliveries = [await producer.send("four", b"v", key=b"%d" % i) for i in range(100)]
    await producer.flush()
    assert {delivery.outcome for delivery in deliveries} == {Outcome.ACKED}
    assert len(values(kafka, "four")) == 100


async def test_does_not_linger(make: Make) -> None:
    """flush() sends at once records that would linger for minutes."""
    producer = await warm(make(linger_ms=100_000, delivery_timeout_ms=200_000))
    await producer.send("one", b"v")
    assert (await asyncio.wait_for(producer.flush(), LIMIT)).acked == 1


async def test_with_nothing_left_to_wait_for_no_time_is_too_short(producer: Producer) -> None:
    """flush(timeout=0) looks whether all records have their outcome, and has their report."""
    await producer.send_and_wait("one", b"v")
    assert await producer.flush(timeout=0) == FlushReport(acked=1)
    assert await producer.flush(timeout=0) == FlushReport()
    delivery = await producer.send("one", b"w")
    with pytest.raises(TimeoutError):
        await producer.flush(timeout=0)
    assert await delivery.wait(LIMIT) is Outcome.ACKED
    assert await producer.flush(timeout=0) == FlushReport(acked=1)


async def test_counts_since_the_last_one(producer: Producer) -> None:
    """The report counts every record that ended since the last flush, and each once."""
    await producer.send_and_wait("one", b"before")
    await producer.send("one", b"v")
    first = await producer.flush()
    second = await producer.flush()
    await producer.send("one", b"w")
    third = await producer.flush()
    assert [first.acked, second.acked, third.acked] == [2, 0, 1]
    assert second == FlushReport()


async def test_empty(producer: Producer) -> None:
    """With nothing to send it returns at once."""
    assert await asyncio.wait_for(producer.flush(), LIMIT) == FlushReport()


async def test_failures_are_reported_not_raised(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Failed records are counted and their first errors kept; only raise_for_errors() raises."""
    kafka.faults.error(REFUSED, topic="one")
    failed = await producer.send("one", b"v")
    fine = await producer.send("four", b"w")
    report = await producer.flush()
    assert (report.acked, report.not_written, report.unknown) == (1, 1, 0)
    assert [type(error) for error in report.first_errors] == [BrokerError]
    with pytest.raises(DeliveryError, match="1 of 2") as caught:
        report.raise_for_errors()
    assert str(caught.value.cause) == str(failed.exception())
    assert fine.outcome is Outcome.ACKED


async def test_unknown_is_counted(make: Make, kafka: EmbeddedKafka) -> None:
    """Records with an unknown outcome are counted apart."""
    producer = await warm(make(linger_ms=0, request_timeout_ms=60, delivery_timeout_ms=60))
    kafka.faults.drop_answer(times=None)
    delivery = await producer.send("one", b"v")
    report = await producer.flush()
    assert (report.acked, report.not_written, report.unknown) == (0, 0, 1)
    with pytest.raises(DeliveryError) as caught:
        report.raise_for_errors()
    assert caught.value.outcome is delivery.outcome is Outcome.UNKNOWN


async def test_withdrawn_records_are_counted(producer: Producer) -> None:
    """A withdrawn record ended as not written, and the report counts it so."""
    assert (await producer.send("one", b"v")).try_cancel()
    assert (await producer.flush()).not_written == 1


async def test_first_errors_are_few(make: Make, kafka: EmbeddedKafka) -> None:
    """With any number of failed records, the report keeps few errors."""
    producer = await warm(make(batch_size=0))
    kafka.faults.error(REFUSED, times=None)
    for _ in range(100):
        await producer.send("one", b"v")
    report = await producer.flush()
    assert report.not_written == 100
    assert 1 <= len(report.first_errors) <= 20


async def test_flushes_that_run_out_of_time_leave_nothing(producer: Producer, kafka: EmbeddedKafka) -> None:
    """They leave nothing on the records that they waited for either, which may be without an answer for minutes."""
    hold = held_requests(kafka)
    delivery = await producer.send("one", b"v")
    queued = producer.send_nowait("not-there-yet", b"v")
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await producer.flush(timeout=0.001)
    engine = producer._engine
    intake = producer._intake
    assert engine is not None
    assert intake is not None
    assert not engine.flushes.waiting
    assert [batch.flushes for batch in engine.accumulator.live] == [()]
    assert [call.flushes for call in intake.waiting_for_topics()] == [()]
    assert queued.try_cancel()
    hold.heal()
    assert (await producer.flush()).acked == 1
    assert delivery.outcome is Outcome.ACKED


async def test_cancelled(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A cancelled flush loses neither records nor counts."""
    hold = held_requests(kafka)
    await producer.send("one", b"v")
    task = started(producer.flush())
    await hold.reached()
    task.cancel()
    await asyncio.wait([task])
    hold.heal()
    assert (await producer.flush()).acked == 1


async def test_later_sends_are_not_waited_for(producer: Producer, kafka: EmbeddedKafka) -> None:
    """It covers records accepted before the call: later sends may continue without end."""
    first = kafka.faults.delay(before=True, topic="one")
    await producer.send("one", b"before")
    task = started(producer.flush())
    await first.reached()
    held = kafka.faults.delay(before=True, topic="four", times=None)
    late = await producer.send("four", b"late")
    late.add_done_callback(lambda _: None)
    first.heal()
    await held.reached()
    assert (await asyncio.wait_for(task, LIMIT)).acked == 1
    assert late.outcome is Outcome.PENDING


async def test_callbacks_have_run(producer: Producer) -> None:
    """All done callbacks have run when flush() returns, in the order of the offsets."""
    observed: list[int] = []
    deliveries = [await producer.send("one", b"v") for _ in range(200)]
    for delivery in reversed(deliveries):
        delivery.add_done_callback(lambda one: observed.append(one.result().offset))
    await producer.flush()
    assert observed == list(range(200))


async def test_very_many_callbacks_have_run(producer: Producer) -> None:
    """Callbacks run in slices, one per turn of the loop: flush() returns after the last one of a record that it covers."""
    observed: list[Delivery] = []
    for _ in range(5000):
        (await producer.send("one", b"v")).add_done_callback(observed.append)
    await producer.flush()
    assert len(observed) == 5000


async def test_callbacks_of_what_was_resolved_before_have_run(producer: Producer) -> None:
    """Callbacks that are queued when flush() is called run first."""
    observed: list[Delivery] = []
    deliveries = [await producer.send("one", b"v") for _ in range(5000)]
    for delivery in deliveries:
        delivery.add_done_callback(observed.append)
    await until(deliveries[-1].done)
    assert len(observed) < 5000
    await producer.flush()
    assert len(observed) == 5000


async def test_callbacks_have_run_though_all_was_resolved(producer: Producer) -> None:
    """Callbacks that were due before flush() was called have run as well."""
    observed: list[Delivery] = []
    first, second = await producer.send("one", b"v"), await producer.send("one", b"w")
    second.add_done_callback(observed.append)
    await first
    await producer.flush()
    assert observed == [second]


async def test_callbacks_of_failures_have_run(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Callbacks of failed records have run as well."""
    kafka.faults.error(REFUSED)
    observed: list[Any] = []
    (await producer.send("one", b"v")).add_done_callback(lambda one: observed.append(one.exception()))
    await producer.flush()
    assert [type(error) for error in observed] == [BrokerError]


async def test_covers_sends_that_wait_for_acceptance(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A send that is not accepted yet is not waited for: no promise covers it."""
    hold = unknown_topic(kafka)
    task = started(producer.send("new", b"v"))
    await hold.reached()
    assert (await asyncio.wait_for(producer.flush(), LIMIT)).acked == 0
    hold.release()
    await (await task)


@pytest.mark.parametrize("timeout", [-1, "1", float("nan")])
async def test_bad_timeout(producer: Producer, timeout: Any) -> None:
    """An invalid timeout is a ValueError that names it."""
    with pytest.raises(ValueError, match="timeout"):
        await producer.flush(timeout)


async def test_order_of_callbacks_over_batches(make: Make, kafka: EmbeddedKafka) -> None:
    """Callbacks of one partition run in offset order over many batches, and over failed attempts."""
    producer = await warm(make(batch_size=200))
    kafka.faults.error("NOT_ENOUGH_REPLICAS", skip=2, times=2)
    observed: list[int] = []
    for i in range(50):
        delivery = await producer.send("one", b"%d" % i + bytes(50))
        delivery.add_done_callback(lambda one: observed.append(one.result().offset))
    await producer.flush()
    assert observed == list(range(50))

"""`close()` always returns in time, resolves everything, and leaves nothing behind (I7)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aioproducer import CloseReport, MetadataTimeoutError, Outcome, Producer, StateError
from aioproducer.testing import EmbeddedKafka
from tests.net.support import (
    LIMIT,
    Make,
    all_acked,
    engine,
    numbers,
    outcomes,
    send_all,
    send_behind,
    turns,
    until,
    warm,
)

SLACK = 5.0
"""Seconds that a busy machine may add. Without its `timeout`, close() would wait for the deliveries, for 120 seconds."""


async def closed_within(producer: Producer[Any, Any], timeout: float) -> CloseReport:
    start = time.monotonic()
    report = await producer.close(timeout=timeout)
    assert time.monotonic() - start < timeout + SLACK
    return report


async def test_waits_for_retries(make: Make, kafka: EmbeddedKafka) -> None:
    """close() waits for records that are being sent again."""
    producer = await warm(make(kafka), "one")
    fault = kafka.faults.error("NOT_ENOUGH_REPLICAS", times=5)
    await send_all(producer, range(3))
    await fault.reached()
    assert await closed_within(producer, 5) == CloseReport(3, 0, 0)


async def test_broker_is_down(make: Make, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture) -> None:
    """With the broker down it gives up at its limit, resolves each delivery, and logs the loss."""
    producer = await warm(make(kafka), "one")
    await kafka.faults.stop_broker(1)
    control = engine(producer).control.connection
    assert control is not None
    await until(lambda: control.closed)
    deliveries = await send_all(producer, range(3))
    report = await closed_within(producer, 0.2)
    assert report.delivered == 0
    assert report.not_written + report.unknown == 3
    assert Outcome.PENDING not in [one.outcome for one in deliveries]
    assert "records were lost when the producer was closed" in caplog.text


@pytest.mark.parametrize("api", ["ApiVersions", "Metadata", "InitProducerId"])
async def test_while_the_broker_keeps_silent_about(api: str, make: Make, kafka: EmbeddedKafka) -> None:
    """During connecting, the first metadata, and the request for a producer id."""
    fault = kafka.faults.silence(api=api)
    producer = make(kafka)
    await producer.start()
    if api == "InitProducerId":
        await producer.partitions_for("one")
    sending = asyncio.ensure_future(producer.send("one", b"0"))
    await fault.reached()
    report = await closed_within(producer, 0.1)
    if api == "InitProducerId":
        assert report == CloseReport(0, 1, 0)
        assert (await sending).outcome is Outcome.NOT_WRITTEN
    else:
        with pytest.raises(StateError):
            await sending


async def test_at_once_after_start(make: Make, kafka: EmbeddedKafka) -> None:
    """Before any of its tasks has run."""
    producer = make(kafka)
    await producer.start()
    assert await closed_within(producer, 1) == CloseReport()


async def test_during_a_start_that_waits(make: Make, kafka: EmbeddedKafka) -> None:
    """A call that waits in `start(wait_ready=...)` or `ready()` raises an error; the producer stays closed."""
    fault = kafka.faults.silence(api="Metadata")
    producer = make(kafka)
    starting = asyncio.ensure_future(producer.start(wait_ready=LIMIT))
    await fault.reached()
    waiting = asyncio.ensure_future(producer.ready())
    partitions = asyncio.ensure_future(producer.partitions_for("one"))
    await turns()
    await closed_within(producer, 0.1)
    for task in (starting, waiting, partitions):
        with pytest.raises(StateError):
            await task
    assert producer.health().state == "closed"


async def test_waiting_senders(make: Make, kafka: EmbeddedKafka) -> None:
    """Calls that wait for memory or metadata are refused at once; accepted records are still sent."""
    producer = await warm(make(kafka, buffer_memory=2_000, batch_size=500), "one")
    hold = kafka.faults.delay(before=True, times=None)
    unknown = kafka.faults.delay(api="Metadata", topic="new", times=None)
    tasks = [asyncio.ensure_future(producer.send("one", b"%0200d" % n)) for n in range(50)]
    strays = [asyncio.ensure_future(producer.send("new", b"0")) for _ in range(5)]
    await until(lambda: engine(producer).admission.calls.waiting > 40)
    closing = asyncio.ensure_future(producer.close(timeout=5))
    refused = 0
    accepted = []
    for result in await asyncio.gather(*tasks, *strays, return_exceptions=True):
        if isinstance(result, StateError):
            refused += 1
        else:
            assert not isinstance(result, BaseException)
            accepted.append(result)
    assert not closing.done()
    hold.heal()
    unknown.heal()
    report = await closing
    assert report == CloseReport(len(accepted), 0, 0)
    assert refused + len(accepted) == 55
    assert numbers(kafka) == list(range(len(accepted)))


async def test_from_several_tasks(producer: Producer, kafka: EmbeddedKafka) -> None:
    """All calls of close get the same report; later ones too."""
    fault = kafka.faults.delay()
    await producer.send("one", b"0")
    closings = [asyncio.ensure_future(producer.close()) for _ in range(3)]
    await fault.reached()
    fault.release()
    assert await asyncio.gather(*closings) == [CloseReport(1, 0, 0)] * 3
    assert await producer.close() == CloseReport(1, 0, 0)


async def test_cancelled(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A cancelled close raises CancelledError, and everything is resolved."""
    fault = kafka.faults.silence(api="Produce")
    delivery = await producer.send("one", b"0")
    await fault.reached()
    closing = asyncio.ensure_future(producer.close(timeout=60))
    await turns()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert delivery.outcome is Outcome.UNKNOWN
    assert producer.health().state == "closed"
    assert await producer.close() == CloseReport(0, 0, 1)


async def test_sending_from_callbacks_of_a_closing_producer(make: Make, kafka: EmbeddedKafka) -> None:
    """A callback that sends while everything is given up gets a StateError, and no record is left without outcome."""
    producer = await warm(make(kafka, linger_ms=10_000), "one")
    errors = await send_behind(producer, range(3))
    await producer.close(timeout=0)
    assert len(errors) == 3


async def test_serializer_that_will_not_be_cancelled(make: Make, kafka: EmbeddedKafka) -> None:
    """A serializer of the user that swallows its cancellation does not keep close from returning."""
    let_go = asyncio.Event()

    async def stubborn(data: bytes) -> bytes:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                await turns(1)
        return data

    producer = await warm(make(kafka, value_serializer=stubborn))
    sending = asyncio.ensure_future(producer.send("one", b"0"))
    await turns(5)
    await closed_within(producer, 0.1)
    with pytest.raises(StateError):
        await sending
    supervisor = engine(producer).supervisor.task
    assert supervisor is not None
    let_go.set()
    await asyncio.wait([supervisor])


async def test_unstarted_and_failed_start(make: Make, kafka: EmbeddedKafka) -> None:
    """A producer that never ran, or whose start failed, closes at once."""
    assert await make(kafka).close() == CloseReport()
    kafka.faults.silence(api="Metadata")
    producer = make(kafka)
    with pytest.raises(MetadataTimeoutError):
        await producer.start(wait_ready=0.05)
    assert await closed_within(producer, 1) == CloseReport()


async def test_many_producers_leave_nothing(make: Make, kafka: EmbeddedKafka) -> None:
    """Twenty producers that come and go, some in the middle of their work: the broker has no connection left."""
    for number in range(20):
        producer = make(kafka)
        await producer.start()
        if number % 2:
            deliveries = [await producer.send("one", b"0") for _ in range(3)]
            if number % 4 == 1:
                assert await all_acked(deliveries)
        await producer.close(timeout=1)
        if number % 2:
            assert Outcome.PENDING not in await outcomes(deliveries)
    await until(lambda: kafka.brokers[0].connections == 0)

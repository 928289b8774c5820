"""`close()` always returns, and every record has its outcome then."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aioproducer import CloseReport, DeliveryError, Outcome, Producer, StateError
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import LIMIT, held_answers, held_requests, started, turns, unknown_topic, values, warm


async def test_sends_what_is_buffered(make: Make, kafka: EmbeddedKafka) -> None:
    """Accepted records are sent, however long they would linger, and counted."""
    producer = await warm(make(linger_ms=100_000, delivery_timeout_ms=200_000))
    deliveries = [await producer.send("one", b"v") for _ in range(10)]
    report = await asyncio.wait_for(producer.close(), LIMIT)
    assert report == CloseReport(delivered=10, not_written=0, unknown=0)
    assert report is producer.close_report
    assert {delivery.outcome for delivery in deliveries} == {Outcome.ACKED}
    assert len(values(kafka)) == 10


async def test_report_counts_only_what_was_left(producer: Producer) -> None:
    """Records that were delivered before are not in the report."""
    await producer.send_and_wait("one", b"v")
    await producer.send("one", b"w")
    assert await producer.close() == CloseReport(delivered=1)


async def test_before_start(make: Make) -> None:
    """A producer that was never started can be closed, and cannot be started afterwards."""
    producer = make()
    assert await producer.close() == CloseReport()
    with pytest.raises(StateError, match="closed"):
        await producer.start()


async def test_timeout_zero_of_buffered(make: Make, kafka: EmbeddedKafka) -> None:
    """close(timeout=0) resolves at once: unsent records are NOT_WRITTEN."""
    producer = await warm(make(linger_ms=10_000))
    delivery = await producer.send("one", b"v")
    assert await asyncio.wait_for(producer.close(timeout=0), LIMIT) == CloseReport(not_written=1)
    with pytest.raises(DeliveryError, match="close") as caught:
        await delivery
    assert caught.value.outcome is delivery.outcome is Outcome.NOT_WRITTEN
    assert values(kafka) == []


async def test_timeout_zero_of_flying(producer: Producer, kafka: EmbeddedKafka) -> None:
    """With close(timeout=0), records in flight are UNKNOWN."""
    hold = held_answers(kafka)
    delivery = await producer.send("one", b"v")
    delivery.add_done_callback(lambda _: None)
    await hold.reached()
    assert await asyncio.wait_for(producer.close(timeout=0), LIMIT) == CloseReport(unknown=1)
    assert delivery.outcome is Outcome.UNKNOWN


async def test_returns_within_its_time(producer: Producer, kafka: EmbeddedKafka) -> None:
    """When no answer comes it returns within `timeout`, with every delivery resolved."""
    hold = held_requests(kafka)
    delivery = await producer.send("one", b"v")
    await hold.reached()
    began = time.monotonic()
    report = await producer.close(timeout=0.05)
    assert time.monotonic() - began < 0.05 + LIMIT / 5
    assert report == CloseReport(unknown=1)
    assert delivery.done()


async def test_default_time(make: Make, kafka: EmbeddedKafka) -> None:
    """Without a timeout the setting close_timeout_ms applies."""
    producer = await warm(make(close_timeout_ms=30))
    hold = held_requests(kafka)
    await producer.send("one", b"v")
    await hold.reached()
    assert (await asyncio.wait_for(producer.close(), LIMIT)).unknown == 1


async def test_second_close_may_be_shorter(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A second close() with less time ends the first."""
    hold = held_requests(kafka)
    await producer.send("one", b"v")
    first = started(producer.close())
    await hold.reached()
    await asyncio.wait_for(producer.close(timeout=0.01), LIMIT)
    assert (await asyncio.wait_for(first, LIMIT)).unknown == 1


async def test_refuses_sends_at_once(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A closing producer accepts no record: a StateError, with NOT_WRITTEN."""
    hold = held_requests(kafka)
    await producer.send("one", b"v")
    task = started(producer.close())
    await hold.reached()
    with pytest.raises(StateError, match="clos") as caught:
        await producer.send("one", b"late")
    with pytest.raises(StateError, match="clos"):
        producer.send_nowait("one", b"late")
    hold.heal()
    assert caught.value.outcome is Outcome.NOT_WRITTEN
    assert await task == CloseReport(delivered=1)
    assert values(kafka) == [b"v"]


async def test_queued_records_are_sent(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A record that send_nowait() queued was accepted: closing waits for its topic."""
    hold = unknown_topic(kafka)
    producer.send_nowait("new", b"v")
    task = started(producer.close())
    await hold.reached()
    hold.release()
    assert await asyncio.wait_for(task, LIMIT) == CloseReport(delivered=1)
    assert values(kafka, "new") == [b"v"]


async def test_callbacks_have_run(producer: Producer) -> None:
    """All done callbacks have run when close() returns, in the order of the offsets."""
    observed: list[int] = []
    for _ in range(50):
        (await producer.send("one", b"v")).add_done_callback(lambda one: observed.append(one.result().offset))
    await producer.close()
    assert observed == list(range(50))


async def test_callbacks_of_what_is_given_up_have_run(make: Make) -> None:
    """Callbacks of records that close(timeout=0) gave up have run as well."""
    producer = await warm(make(linger_ms=10_000, linger_awaited=True))
    observed: list[Outcome] = []
    (await producer.send("one", b"v")).add_done_callback(lambda one: observed.append(one.outcome))
    await producer.close(timeout=0)
    assert observed == [Outcome.NOT_WRITTEN]


async def test_from_a_callback(producer: Producer) -> None:
    """A callback of a delivery may start closing."""
    closing: list[asyncio.Task[Any]] = []
    delivery = await producer.send("one", b"v")
    delivery.add_done_callback(lambda _: closing.append(started(producer.close())))
    await delivery
    await turns()
    assert await asyncio.wait_for(closing[0], LIMIT) == CloseReport()


async def test_flush_while_closing(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A flush() in progress ends with the closing."""
    hold = held_requests(kafka)
    await producer.send("one", b"v")
    flushing = started(producer.flush())
    await hold.reached()
    await producer.close(timeout=0)
    done, _ = await asyncio.wait([flushing], timeout=LIMIT)
    assert done
    assert flushing.exception() is None
    assert flushing.result().unknown == 1


@pytest.mark.parametrize("timeout", [-1, "1", float("nan")])
async def test_bad_timeout(producer: Producer, timeout: Any) -> None:
    """An invalid timeout is a ValueError, and nothing is closed."""
    with pytest.raises(ValueError, match="timeout"):
        await producer.close(timeout)
    assert (await producer.send_and_wait("one", b"v")).offset == 0


async def test_bulk_under_way(make: Make, kafka: EmbeddedKafka) -> None:
    """A bulk send that waits for memory is cut: accepted records are sent, the rest is NOT_WRITTEN."""
    producer = await warm(make(buffer_memory=5000))
    hold = held_requests(kafka)
    task = started(producer.send_batch("one", [bytes(1000)] * 10))
    await hold.reached()
    closing = started(producer.close())
    await turns()
    hold.heal()
    report = await closing
    result = await (await task)
    assert 0 < result.acked == report.delivered < 10
    assert result.acked + result.not_written == 10
    assert len(values(kafka)) == result.acked


async def test_quiet(producer: Producer, caplog: pytest.LogCaptureFixture) -> None:
    """A clean end writes nothing to the log above INFO."""
    await producer.send_and_wait("one", b"v")
    await producer.close()
    assert [record.message for record in caplog.records if record.levelname not in {"DEBUG", "INFO"}] == []

"""The owners of failures: each task and each scope has reports of its own, independent of the others."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import AsyncMock

import pytest

from aioproducer import DeliveryError, FlushReport, Producer, Record, StateError
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.api.conftest import Make
from tests.api.support import LIMIT, held_requests, started, turns, unknown_topic, until, warm

Spoil = Callable[[], object]


@pytest.fixture(params=["producer", "mock"])
async def sender(request: pytest.FixtureRequest, make: Make) -> Any:
    """A running producer, and a mock."""
    if request.param == "producer":
        yield await warm(make())
        return
    async with MockProducer(partitions={"four": 4}) as mock:
        yield mock


@pytest.fixture
def spoil(sender: Any, kafka: EmbeddedKafka) -> Spoil:
    """Make the next record of topic `one` fail."""

    def order() -> object:
        if isinstance(sender, MockProducer):
            sender.fail_delivery(DeliveryError("spoiled"), topic="one")
            return None
        return kafka.faults.error("INVALID_REQUIRED_ACKS", topic="one")

    return order


@pytest.fixture
def spoiled(kafka: EmbeddedKafka) -> Spoil:
    """Make the next record of topic `one` fail, of a producer."""
    return lambda: kafka.faults.error("INVALID_REQUIRED_ACKS", topic="one")


def numbers(report: FlushReport) -> tuple[int, int, int]:
    return report.acked, report.not_written, report.unknown


async def in_a_task(work: Callable[[], Awaitable[Any]]) -> Any:
    """Run the work in a task of its own and return its result."""

    async def body() -> Any:
        return await work()

    return await asyncio.get_running_loop().create_task(body())


async def test_no_report_takes_the_failure_of_another_task(sender: Any, spoil: Spoil) -> None:
    """B flushes first; the record of A was lost, and the report of A still has the failure."""
    sent, flushed = asyncio.Event(), asyncio.Event()
    await sender.send("four", b"v")

    async def a() -> FlushReport:
        spoil()
        await (await sender.send("one", b"v")).wait()
        sent.set()
        await flushed.wait()
        report: FlushReport = await sender.flush()
        return report

    of_a = asyncio.ensure_future(a())
    await sent.wait()
    assert (await sender.flush()).not_written == 1
    flushed.set()
    report = await of_a
    assert report.not_written == 1
    with pytest.raises(DeliveryError, match="not acknowledged"):
        report.raise_for_errors()


async def test_a_failure_is_reported_once(sender: Any, spoil: Spoil) -> None:
    """The second report of a task has no failure of the first."""
    spoil()
    await sender.send("one", b"v")
    assert numbers(await sender.flush()) == (0, 1, 0)
    await sender.send("one", b"v")
    assert numbers(await sender.flush()) == (1, 0, 0)
    assert await sender.flush() == FlushReport()


async def test_reports_begin_with_the_first_record_of_a_task(sender: Any, spoil: Spoil) -> None:
    """Failures before a task first sent a record are not in its report: a handler for each request does not see old failures."""
    spoil()
    await (await sender.send("one", b"v")).wait()

    async def handler() -> FlushReport:
        await sender.send("one", b"v")
        report: FlushReport = await sender.flush()
        return report

    for _ in range(3):
        assert numbers(await in_a_task(handler)) == (1, 0, 0)
    assert numbers(await sender.flush()) == (3, 1, 0)


@pytest.mark.parametrize("how", ["send_and_wait", "send_nowait", "send_batch", "send_all", "slowly"])
async def test_each_call_may_be_the_first(sender: Any, spoil: Spoil, how: str) -> None:
    """Each way to send begins the reports of its task, before its record can fail."""

    await sender.send_and_wait("one", b"before")

    async def handler() -> FlushReport:
        spoil()
        if how == "send_and_wait":
            with pytest.raises(DeliveryError):
                await sender.send_and_wait("one", b"v")
        elif how == "send_nowait":
            sender.send_nowait("one", b"v")
        elif how == "send_batch":
            await sender.send_batch("one", [b"v"])
        elif how == "send_all":
            await sender.send_all([Record("one", b"v")])
        else:
            await sender.send("one", b"v", timeout=LIMIT)
        report: FlushReport = await sender.flush()
        return report

    assert numbers(await in_a_task(handler)) == (0, 1, 0)


async def test_a_task_that_never_sent_gets_every_failure(sender: Any, spoil: Spoil) -> None:
    """A task that never sent gets every failure: its children may have sent."""
    spoil()
    await (await sender.send("one", b"v")).wait()

    async def parent() -> tuple[FlushReport, FlushReport]:
        await in_a_task(lambda: sender.send_and_wait("one", b"v"))
        return await sender.flush(), await sender.flush()

    first, second = await in_a_task(parent)
    assert (numbers(first), second) == ((1, 1, 0), FlushReport())


async def test_the_owner_is_the_task_that_makes_the_call(sender: Any, spoil: Spoil) -> None:
    """`wait_for(flush())`, `create_task(flush())` and `gather(flush())` report to the task that wrote the call."""
    spoil()
    await sender.send("one", b"v")
    assert numbers(await asyncio.wait_for(sender.flush(), LIMIT)) == (0, 1, 0)
    await sender.send("one", b"v")
    assert numbers(await started(sender.flush())) == (1, 0, 0)
    await sender.send("one", b"v")
    assert [numbers(report) for report in await asyncio.gather(sender.flush())] == [(1, 0, 0)]


async def test_a_flush_that_runs_out_of_time_reports_nothing(
    producer: Producer, spoiled: Spoil, kafka: EmbeddedKafka
) -> None:
    """The next report has the failures that the timed-out one would have had."""
    spoiled()
    await (await producer.send("one", b"v")).wait()
    hold = held_requests(kafka)
    await producer.send("one", b"v")
    with pytest.raises(TimeoutError):
        await producer.flush(timeout=0)
    hold.heal()
    assert numbers(await producer.flush()) == (1, 1, 0)


async def test_a_mock_waits_for_the_test_and_reports_no_later_records() -> None:
    """Records after the call do not count in its report, nor does their failure."""
    async with MockProducer(auto_complete=False) as mock:
        await mock.send("one", b"v")
        flushing = started(mock.flush())
        await turns(1)
        await mock.send("one", b"w")
        mock.fail_all(DeliveryError("spoiled"))
        assert numbers(await flushing) == (0, 1, 0)
        report = await mock.flush()
        assert (numbers(report), len(report.first_errors)) == ((0, 1, 0), 1)


async def test_a_scope_begins_where_it_is_entered(sender: Any, spoil: Spoil) -> None:
    """A scope's report is independent of earlier failures and of reports to tasks."""
    spoil()
    await (await sender.send("one", b"v")).wait()
    async with sender.scope() as scope:
        spoil()
        await sender.send("one", b"v")
        await sender.flush()
        assert numbers(await scope.flush()) == (0, 1, 0)
        assert await scope.flush() == FlushReport()


async def test_tasks_share_a_scope(sender: Any, spoil: Spoil) -> None:
    """A parent flushes the records of its children, and its report has their failures."""
    spoil()
    await (await sender.send("one", b"v")).wait()

    async def parent() -> FlushReport:
        async with sender.scope() as scope:
            spoil()
            await asyncio.gather(*(in_a_task(lambda: sender.send("one", b"v")) for _ in range(2)))
            report: FlushReport = await scope.flush()
            return report

    assert (await in_a_task(parent)).not_written >= 1


async def test_a_scope_has_an_end(sender: Any) -> None:
    """A scope works inside its block; leaving it flushes nothing."""
    scope = sender.scope()
    with pytest.raises(StateError, match="not entered"):
        await scope.flush()
    async with scope:
        with pytest.raises(StateError, match="already entered"):
            await scope.__aenter__()
        await sender.send("one", b"v")
    with pytest.raises(StateError, match="has ended"):
        await scope.flush()
    assert (await sender.flush()).acked == 1


async def test_a_scope_of_a_producer_that_does_not_run(make: Make) -> None:
    """Entering the scope raises the reason."""
    for one in (make(), MockProducer()):
        with pytest.raises(StateError, match="not started"):
            async with one.scope():
                raise AssertionError("the scope was entered")


async def test_an_error_leaves_a_scope_as_it_is(sender: Any) -> None:
    """An exception inside the block is not changed."""
    with pytest.raises(ZeroDivisionError):
        async with sender.scope():
            raise ZeroDivisionError


async def test_nothing_is_kept_of_tasks_that_are_gone(sender: Any) -> None:
    """Nothing remains of a thousand finished tasks."""

    async def handler() -> None:
        await sender.send("one", b"v")
        await sender.flush()

    await in_a_task(handler)
    gc.collect()
    before = len(sender._owners.entries)
    for _ in range(10):
        await asyncio.gather(*(in_a_task(handler) for _ in range(100)))
    await turns()
    gc.collect()
    assert len(sender._owners.entries) <= before


async def test_it_is_seen_as_a_coroutine_function() -> None:
    """Mocks of a producer have an awaitable flush()."""
    mock = AsyncMock(spec=Producer)
    mock.flush.return_value = FlushReport(acked=7)
    assert (await mock.flush()).acked == 7
    coroutine = Producer("localhost:9092").flush()
    assert asyncio.iscoroutine(coroutine)
    coroutine.close()
    assert inspect.signature(Producer.flush) == inspect.signature(MockProducer.flush)


async def test_records_behind_the_call_are_of_the_next_report(make: Make, kafka: EmbeddedKafka) -> None:
    """Records that join the batches of a flush do not count in its report, even if they fail."""
    producer = await warm(make(linger_ms=60_000))
    hold = held_requests(kafka)
    kafka.faults.error("INVALID_REQUIRED_ACKS", topic="one", times=None)
    for _ in range(3):
        await producer.send("one", b"v")
    first = started(producer.flush())
    await turns(1)
    for _ in range(200):
        await producer.send("one", b"v")
    await hold.reached()
    hold.heal()
    assert numbers(await first) == (0, 3, 0)
    assert numbers(await producer.flush()) == (0, 200, 0)


async def test_records_that_wait_for_their_topic_count(producer: Producer, kafka: EmbeddedKafka) -> None:
    """`send_nowait` had accepted them before the call; once reported, they are not reported again."""
    hold = unknown_topic(kafka)
    kafka.faults.error("INVALID_REQUIRED_ACKS", topic="new", times=None)
    delivery = producer.send_nowait("new", b"v")
    lost = producer.send_nowait("new", b"w")
    flushing = started(producer.flush())
    await hold.reached()
    assert lost.try_cancel()
    hold.release()
    report = await flushing
    assert (numbers(report), len(report.first_errors)) == ((0, 2, 0), 2)
    assert delivery.exception()
    kafka.faults.heal()
    kafka.faults.error("INVALID_REQUIRED_ACKS", topic="one")
    await producer.send("one", b"v")
    report = await producer.flush()
    assert (numbers(report), len(report.first_errors)) == ((0, 1, 0), 1)


async def test_errors_that_are_not_kept(make: Make, kafka: EmbeddedKafka) -> None:
    """After very many failures the counts are exact, and the report says that errors are missing."""
    producer = await warm(make(batch_size=0))
    kafka.faults.error("INVALID_REQUIRED_ACKS", times=None)

    async def crowd() -> None:
        for _ in range(300):
            await producer.send("one", b"v")
        report = await producer.flush()
        assert not report.first_errors_dropped

    async with producer.scope() as scope:
        await in_a_task(crowd)
        report = await scope.flush()
    assert (report.not_written, len(report.first_errors), report.first_errors_dropped) == (300, 10, True)


async def test_gapless_goes_on_when_the_loss_was_reported(make: Make, kafka: EmbeddedKafka) -> None:
    """A flush that does not report a loss, because the loss came after its call, does not count as a look at it."""
    producer = await warm(make(gapless=True, batch_size=1, max_in_flight_requests_per_connection=1))
    hold = kafka.faults.delay(before=True, topic="four")
    await producer.send("four", b"v")
    first = started(producer.flush())
    await hold.reached()
    lost = producer.send_nowait("one", b"lost", timeout=0.01)
    await until(lambda: producer.stats().records_failed)
    hold.release()
    assert numbers(await first) == (1, 0, 0)
    behind = producer.send_nowait("one", b"behind")
    assert numbers(await producer.flush()) == (0, 2, 0)
    assert (await producer.send_and_wait("one", b"next")).offset == 0
    assert lost.exception()
    assert behind.exception()

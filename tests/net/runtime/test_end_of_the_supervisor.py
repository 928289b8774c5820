"""For every way to end the producer's tasks, everything resolves with the cause, and no call waits for a dead task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer import DeliveryError, Outcome, Producer, StateError
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, engine, memory_in_use, send_all, send_behind, turns, until, warm


def cancel_supervisor(producer: Producer[Any, Any]) -> None:
    supervisor = engine(producer).supervisor.task
    assert supervisor is not None
    supervisor.cancel()


def cancel_all(producer: Producer[Any, Any]) -> None:
    for task in asyncio.all_tasks():
        if task.get_name().startswith("aioproducer"):
            task.cancel()


def cancel_one(name: str) -> Callable[[Producer[Any, Any]], None]:
    def cancel(producer: Producer[Any, Any]) -> None:
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == f"aioproducer {name}"]
        task.cancel()

    return cancel


class UnforeseenError(Exception):
    """An exception without a handler."""


def bug_in_the_clock(producer: Producer[Any, Any]) -> None:
    def broken(now: float) -> None:
        raise UnforeseenError

    engine(producer).machines.expiry.expire = broken  # type: ignore[method-assign]
    engine(producer).wakeup.ring()


def bug_at_an_alarm(producer: Producer[Any, Any]) -> None:
    def broken(now: float) -> None:
        raise UnforeseenError

    engine(producer).machines.expiry.expire = broken  # type: ignore[method-assign]
    engine(producer).wakeup.by(0.0)


def bug_in_the_view(producer: Producer[Any, Any]) -> None:
    def broken(now: float) -> None:
        raise UnforeseenError

    engine(producer).view.due = broken  # type: ignore[method-assign]
    engine(producer).control.close()


ENDS: dict[str, Callable[[Producer[Any, Any]], None]] = {
    "supervisor cancelled": cancel_supervisor,
    "all tasks cancelled": cancel_all,
    "sender cancelled": cancel_one("sender 1"),
    "metadata cancelled": cancel_one("metadata"),
    "identity cancelled": cancel_one("identity"),
    "timekeeper cancelled": cancel_one("accumulator"),
    "bug in the clock": bug_in_the_clock,
    "bug at an alarm": bug_at_an_alarm,
    "bug in the view": bug_in_the_view,
}


@pytest.mark.parametrize("how", ENDS)
async def test_everything_resolves(how: str, make: Make, kafka: EmbeddedKafka) -> None:
    """Deliveries, waiting sends, flush and metadata calls all end with the cause; later calls are refused at once."""
    producer = await warm(make(kafka, buffer_memory=1_000, batch_size=100), "one")
    await producer.send_and_wait("one", b"0")
    fault = kafka.faults.silence(api="Produce")
    deliveries = await send_all(producer, range(1, 5))
    await fault.reached()
    waiting = asyncio.ensure_future(producer.send("one", bytes(900)))
    unknown = kafka.faults.delay(api="Metadata", topic="new", times=None)
    stuck = asyncio.ensure_future(producer.send("new", b"0"))
    looking = asyncio.ensure_future(producer.partitions_for("new"))
    flushing = asyncio.ensure_future(producer.flush())
    await unknown.reached()
    ENDS[how](producer)
    async with asyncio.timeout(LIMIT):
        for delivery in deliveries:
            assert await delivery.wait(None) in (Outcome.UNKNOWN, Outcome.NOT_WRITTEN)
            error = delivery.exception()
            assert isinstance(error, DeliveryError)
            assert error.cause is not None
            if how.startswith("bug"):
                assert isinstance(error.cause, UnforeseenError)
        for task in (waiting, stuck, looking):
            with pytest.raises(StateError):
                await task
        report = await flushing
        assert report.unknown + report.not_written == 4
    with pytest.raises(StateError, match="background task has ended") as late:
        await producer.send("one", b"0")
    assert late.value.cause is not None
    with pytest.raises(StateError, match="background task has ended"):
        producer.send_nowait("one", b"0")
    with pytest.raises(StateError, match="background task has ended"):
        await producer.flush()
    assert producer.health().state == "failed"
    assert memory_in_use(producer) == 0
    unknown.heal()
    await producer.close()
    assert producer.health().state == "closed"


async def test_bug_in_a_sender(make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in a sender's task ends the producer with the bug as the cause."""
    producer = await warm(make(kafka), "one")

    def broken(*_: object) -> None:
        raise UnforeseenError("in the sender")

    monkeypatch.setattr(engine(producer).accumulator.drainer, "drain", broken)
    delivery = await producer.send("one", b"0")
    assert await delivery.wait(LIMIT) is Outcome.NOT_WRITTEN
    error = delivery.exception()
    assert error is not None
    assert isinstance(error.__cause__, UnforeseenError)


@pytest.mark.parametrize("method", ["settle_topics", "lost"])
async def test_bug_while_an_answer_is_handled(
    method: str, make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug behind an answer, or behind its loss, ends the producer too: no batch stays in flight without end."""
    producer = await warm(make(kafka), "one")

    def broken(*_: object, **__: object) -> None:
        raise UnforeseenError("behind the answer")

    monkeypatch.setattr(engine(producer).machines.settlement, method, broken)
    if method == "lost":
        kafka.faults.cut()
    delivery = await producer.send("one", b"0")
    assert await delivery.wait(LIMIT) is Outcome.UNKNOWN
    error = delivery.exception()
    assert error is not None
    assert isinstance(error.__cause__, UnforeseenError)


async def test_bug_in_the_last_words(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even when settling itself is broken, no delivery and no flush is left waiting."""
    producer = await warm(make(kafka, linger_ms=10_000), "one")

    def broken(*_: object, **__: object) -> None:
        raise UnforeseenError

    monkeypatch.setattr(engine(producer).machines.endings, "abandon", broken)
    delivery = await producer.send("one", b"0")
    hold = kafka.faults.silence(api="Produce")
    flushing = asyncio.ensure_future(producer.flush())
    await hold.reached()
    cancel_supervisor(producer)
    assert await delivery.wait(LIMIT) is Outcome.UNKNOWN
    with pytest.raises(StateError, match="has ended"):
        await flushing


async def test_sending_from_callbacks_of_the_end(make: Make, kafka: EmbeddedKafka) -> None:
    """A callback that sends while the producer dies is refused: no record is accepted that would never be sent."""
    producer = await warm(make(kafka, linger_ms=10_000), "one")
    errors = await send_behind(producer, range(3))
    cancel_supervisor(producer)
    await until(lambda: producer.health().state == "failed")
    await turns()
    assert len(errors) == 3


async def test_cancelled_while_closing(make: Make, kafka: EmbeddedKafka) -> None:
    """A supervisor that is cancelled while close waits does not keep it from returning."""
    producer = await warm(make(kafka), "one")
    fault = kafka.faults.silence(api="Produce")
    await producer.send("one", b"0")
    await fault.reached()
    closing = asyncio.ensure_future(producer.close(timeout=60))
    await turns()
    cancel_all(producer)
    report = await closing
    assert report.unknown == 1


async def test_death_is_logged_once(
    make: Make, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the cause of the producer's end, with the traceback of a bug."""
    producer = await warm(make(kafka), "one")
    bug_in_the_clock(producer)
    await until(lambda: producer.health().state == "failed")
    (record,) = [record for record in caplog.records if "background task ended" in record.getMessage()]
    assert record.exc_info is not None

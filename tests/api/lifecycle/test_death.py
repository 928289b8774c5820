"""The producer's own end: cancelled by a third party, dropped, or done; no call hangs and nothing is left."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from aioproducer import Delivery, DeliveryError, KafkaError, Outcome, Producer, StateError
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import LIMIT, held_requests, started, turns, unknown_topic, until, warm
from tests.net.support import timers_of_the_library


def tasks_of_the_library() -> list[asyncio.Task[Any]]:
    """The background tasks of all producers."""
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("aioproducer")]


def cancel_everything() -> None:
    """Cancels all tasks, as a careless program does at its end."""
    for task in tasks_of_the_library():
        task.cancel()


async def dead(producer: Producer[Any, Any]) -> None:
    """Cancel its tasks and wait for their end."""
    tasks = tasks_of_the_library()
    assert tasks
    cancel_everything()
    await asyncio.wait(tasks, timeout=LIMIT)
    await turns()


async def test_waiting_calls_fail(producer: Producer, kafka: EmbeddedKafka) -> None:
    """When its tasks are cancelled by another library, calls that wait to be accepted raise StateError."""
    hold = unknown_topic(kafka)
    tasks = [started(producer.send("new", b"v")), started(producer.send_batch("new", [b"v"]))]
    queued = producer.send_nowait("new", b"v")
    await hold.reached()
    await dead(producer)
    with pytest.raises(StateError):
        await tasks[0]
    result = await asyncio.wait_for(await tasks[1], LIMIT)
    assert result.not_written == 1
    assert queued.outcome is Outcome.NOT_WRITTEN


@pytest.mark.parametrize("timeout", [None, LIMIT])
async def test_ready_and_partitions_for_end(kafka: EmbeddedKafka, timeout: float | None) -> None:
    """ready() and partitions_for() raise StateError then: no call waits for an ended task."""
    producer: Producer[Any, Any] = Producer("127.0.0.1:1")
    await producer.start()
    tasks = [started(producer.ready(timeout)), started(producer.partitions_for("one"))]
    await turns(5)
    await dead(producer)
    done, pending = await asyncio.wait(tasks, timeout=2)
    assert not pending
    assert {type(task.exception()) for task in done} == {StateError}
    await producer.close()


async def test_it_can_still_be_closed(producer: Producer, kafka: EmbeddedKafka) -> None:
    """close() of a dead producer returns at once and reports the lost records."""
    held_requests(kafka)
    await producer.send("one", b"v")
    await dead(producer)
    report = await asyncio.wait_for(producer.close(), LIMIT)
    assert report.delivered == 0


async def test_the_report_counts_what_the_end_took(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Records that were delivered, or had failed, before the end are not counted by close() as delivered, or lost."""
    await producer.send_and_wait("one", b"v")
    with pytest.raises(DeliveryError):
        await (await withdrawn(producer))
    held_requests(kafka)
    await producer.send("one", b"w")
    await producer.send("four", b"w")
    await dead(producer)
    report = await asyncio.wait_for(producer.close(), LIMIT)
    assert (report.delivered, report.not_written + report.unknown) == (0, 2)


async def withdrawn(producer: Producer[Any, Any]) -> Delivery:
    """A withdrawn record."""
    delivery = await producer.send("one", b"v")
    assert delivery.try_cancel()
    return delivery


async def test_cancelled_right_after_the_start(make: Make) -> None:
    """The same holds for tasks that are cancelled before their first turn."""
    producer = make()
    await producer.start()
    cancel_everything()
    with pytest.raises(KafkaError):
        await asyncio.wait_for(producer.send_and_wait("one", b"v"), LIMIT)
    await asyncio.wait_for(producer.close(), LIMIT)


async def test_nothing_is_left(kafka: EmbeddedKafka) -> None:
    """After close() only the test's own task is left, and every connection is closed."""
    before = asyncio.all_tasks()
    async with Producer(kafka.bootstrap_servers, compression_type="gzip") as producer:
        await producer.send_and_wait("one", bytes(200_000))
        during = asyncio.all_tasks() - before
    assert during
    await until(lambda: not kafka.brokers[0].connections)
    assert asyncio.all_tasks() <= before | {task for task in asyncio.all_tasks() if "Server" in repr(task)}
    assert tasks_of_the_library() == []


async def test_no_timer_is_left(kafka: EmbeddedKafka) -> None:
    """After close() no timer of the library is left in the loop."""
    async with Producer(kafka.bootstrap_servers) as producer:
        await producer.send_and_wait("one", b"v")
        await producer.send("one", b"v", timeout=60)
        await producer.send("one", b"v", headers={}, max_block=60)
    assert timers_of_the_library() == []


@pytest.mark.parametrize("timeout", [None, 0])
async def test_nothing_is_left_while_a_broker_is_silent(kafka: EmbeddedKafka, timeout: float | None) -> None:
    """Nothing is left either when the broker does not answer."""
    kafka.faults.silence()
    producer: Producer[Any, Any] = Producer(kafka.bootstrap_servers, close_timeout_ms=20)
    await producer.start()
    producer.send_nowait("one", b"v")
    await until(lambda: kafka.brokers[0].connections)
    await producer.close(timeout)
    await until(lambda: not kafka.brokers[0].connections)
    assert tasks_of_the_library() == []


async def test_closed_producer_is_freed(kafka: EmbeddedKafka) -> None:
    """A closed producer without references is collected, with no ResourceWarning."""
    producer: Producer[Any, Any] = Producer(kafka.bootstrap_servers)
    async with producer:
        await producer.send_and_wait("one", b"v")
    reference = weakref.ref(producer)
    del producer
    await turns()
    gc.collect()
    assert reference() is None


async def test_dropped_without_close(kafka: EmbeddedKafka) -> None:
    """A producer that is dropped while it runs gives a ResourceWarning, and leaves nothing running."""
    kept = [await warm(Producer[Any, Any](kafka.bootstrap_servers))]
    reference = weakref.ref(kept[0])
    await turns()
    with pytest.warns(ResourceWarning, match="never closed"):
        forget(kept)
    assert reference() is None
    await until(lambda: not tasks_of_the_library())
    await until(lambda: not kafka.brokers[0].connections)


def forget(kept: list[Any]) -> None:
    """Drop the objects of the list, and the objects that only they refer to."""
    kept.clear()
    gc.collect()

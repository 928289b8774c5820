"""`send_threadsafe()` from other threads, and closing while other threads or tasks send."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer import KafkaError, Producer, RecordMetadata, StateError
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import LIMIT, started, values


def in_thread(function: Callable[[], Any]) -> asyncio.Future[Any]:
    """Run it in another thread."""
    return asyncio.ensure_future(asyncio.to_thread(function))


async def test_send_threadsafe(producer: Producer, kafka: EmbeddedKafka) -> None:
    """From another thread the future gives the metadata, with all parameters of send()."""

    def work() -> Any:
        future = producer.send_threadsafe(
            "four", b"v", key=b"k", partition=3, timestamp=1_700_000_000_000, headers={"h": b"1"}, timeout=5
        )
        return future.result(LIMIT)

    metadata = await in_thread(work)
    (record,) = kafka.records("four", 3)
    assert metadata[:4] == ("four", 3, 0, 1_700_000_000_000)
    assert (record.key, record.headers) == (b"k", (("h", b"1"),))


async def test_send_threadsafe_keeps_the_order_of_a_thread(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Records of one thread are written in its order."""

    def work() -> None:
        futures = [producer.send_threadsafe("one", b"%d" % i) for i in range(100)]
        for future in futures:
            future.result(LIMIT)

    await in_thread(work)
    assert values(kafka) == [b"%d" % i for i in range(100)]


async def test_send_threadsafe_that_is_cancelled_at_once_ends(
    producer: Producer, kafka: EmbeddedKafka
) -> None:
    """A future that is cancelled before the loop takes it up is done for a wait on several; nothing is written."""
    futures: list[concurrent.futures.Future[RecordMetadata]] = []

    def give_up() -> None:
        futures.append(producer.send_threadsafe("one", b"v"))
        futures[0].cancel()

    # The loop does not run meanwhile.
    thread = threading.Thread(target=give_up)
    thread.start()
    thread.join()
    done, waiting = await in_thread(lambda: concurrent.futures.wait(futures, LIMIT))
    assert (len(done), len(waiting)) == (1, 0)
    assert values(kafka) == []


async def test_send_threadsafe_on_the_own_thread(producer: Producer) -> None:
    """On the producer's own thread it would wait for itself: a StateError that names send()."""
    with pytest.raises(StateError, match=r"send\(\)"):
        producer.send_threadsafe("one", b"v")


async def test_send_threadsafe_of_a_bad_record(producer: Producer[Any, Any]) -> None:
    """The problem of a record is raised by the future, or by the call."""

    def work() -> None:
        producer.send_threadsafe("one", "text").result(LIMIT)

    with pytest.raises(KafkaError, match="value_serializer"):
        await in_thread(work)


@pytest.mark.parametrize("state", ["new", "closed"])
async def test_send_threadsafe_without_a_running_producer(make: Make, state: str) -> None:
    """Before start and after close it is a StateError."""
    producer = make()
    if state == "closed":
        await producer.start()
        await producer.close()
    with pytest.raises(StateError, match="start" if state == "new" else "closed"):
        await in_thread(lambda: producer.send_threadsafe("one", b"v"))


async def test_send_threadsafe_while_it_closes(producer: Producer) -> None:
    """A future whose record was not accepted before the end raises; it never hangs."""
    stop = threading.Event()

    def work() -> list[BaseException | None]:
        futures = []
        try:
            while not stop.is_set():
                futures.append(producer.send_threadsafe("one", b"v"))
                time.sleep(0)
        except StateError:
            pass
        return [future.exception(LIMIT) for future in futures]

    task = in_thread(work)
    await producer.partitions_for("other")
    report = await producer.close()
    stop.set()
    results = await task
    assert all(error is None or isinstance(error, KafkaError) for error in results)
    assert report.unknown == 0


async def test_concurrent_close_in_tasks(producer: Producer) -> None:
    """Any number of tasks may send while another closes; each send is accepted or a StateError."""

    async def work() -> list[BaseException]:
        errors: list[BaseException] = []
        while not errors:
            try:
                await producer.send("one", b"v")
                await asyncio.sleep(0)
            except StateError as error:
                errors.append(error)
        return errors

    tasks = [started(work()) for _ in range(5)]
    await asyncio.sleep(0)
    report = await producer.close()
    await asyncio.gather(*tasks)
    assert (report.not_written, report.unknown) == (0, 0)
    assert producer.stats().records_acked == producer.stats().records_accepted

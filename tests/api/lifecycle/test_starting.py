"""`start()`, `ready()` and `async with`: the beginning of a producer's life."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from aioproducer import BrokerUnavailableError, KafkaError, MetadataTimeoutError, Producer, StateError
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import LIMIT, started, until, values


@pytest.fixture
def closed_address() -> Iterator[str]:
    """An address without a listener: the port is bound, so that no other program can take it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


async def test_start_does_not_wait_for_brokers(closed_address: str) -> None:
    """start() returns at once with every broker down."""
    producer = Producer(closed_address)
    await asyncio.wait_for(producer.start(), LIMIT)
    assert producer.health().state == "running"
    await producer.close()


async def test_start_twice(make: Make) -> None:
    """A second start() while the producer runs is a StateError, and the producer still works."""
    producer = make()
    await producer.start()
    with pytest.raises(StateError, match="running"):
        await producer.start()
    assert (await producer.send_and_wait("one", b"v")).offset == 0


async def test_start_after_close(make: Make) -> None:
    """A closed producer cannot be started again: the error says to make a new one."""
    producer = make()
    await producer.start()
    await producer.close()
    with pytest.raises(StateError, match="closed, and can be started once only: create a new one"):
        await producer.start()


async def test_start_wait_ready(make: Make) -> None:
    """start(wait_ready) returns when a broker has answered."""
    producer = make()
    await producer.start(wait_ready=LIMIT)
    assert (await producer.send_and_wait("one", b"v")).offset == 0


async def test_start_wait_ready_learns_the_topics(make: Make) -> None:
    """With topics=[...] the first send finds their metadata."""
    producer = make(topics=["one", "four"])
    await producer.start(wait_ready=LIMIT)
    sending = producer.send("one", b"v")
    assert sending.delivery is not None
    await sending


async def test_topics_are_learned_behind_a_plain_start(make: Make) -> None:
    """The metadata comes though no call waits for it."""
    producer = make(topics=["one"])
    await producer.start()
    await producer.ready(LIMIT)
    sending = producer.send("one", b"v")
    assert sending.delivery is not None
    await sending


async def test_start_wait_ready_without_brokers(closed_address: str) -> None:
    """Without a broker it raises within its time; the error names the address and the reason."""
    producer = Producer(closed_address)
    with pytest.raises(KafkaError, match=closed_address) as caught:
        await asyncio.wait_for(producer.start(wait_ready=0.05), LIMIT)
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value.__cause__, BrokerUnavailableError)
    assert "refused" in str(caught.value)


async def test_start_again_after_a_failed_one(kafka: EmbeddedKafka) -> None:
    """After a failed start it can be started again, and works when the broker is back."""
    producer = Producer(kafka.bootstrap_servers)
    await kafka.faults.refuse_connections(1)
    with pytest.raises(MetadataTimeoutError):
        await producer.start(wait_ready=0.02)
    await kafka.faults.accept_connections(1)
    await producer.start(wait_ready=LIMIT)
    assert (await producer.send_and_wait("one", b"v")).offset == 0
    await producer.close()


async def test_start_again_after_a_cancelled_one(kafka: EmbeddedKafka) -> None:
    """After a cancelled start it can be started again."""
    producer = Producer(kafka.bootstrap_servers)
    hold = kafka.faults.delay(api="Metadata", times=None)
    task = started(producer.start(wait_ready=LIMIT))
    await hold.reached()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    hold.heal()
    await producer.start(wait_ready=LIMIT)
    assert (await producer.send_and_wait("one", b"v")).offset == 0
    await producer.close()


async def test_failed_start_leaves_no_task(closed_address: str) -> None:
    """A failed start has ended its tasks."""
    producer = Producer(closed_address)
    before = asyncio.all_tasks()
    with pytest.raises(KafkaError):
        await producer.start(wait_ready=0.02)
    assert asyncio.all_tasks() == before
    assert (await producer.close()).unknown == 0


async def test_ready(make: Make) -> None:
    """ready() returns when a broker has answered; also a second time."""
    producer = make()
    await producer.start()
    await producer.ready(LIMIT)
    await producer.ready()


async def test_ready_without_brokers(closed_address: str) -> None:
    """ready(timeout) raises the problem within its time, and the producer keeps trying."""
    async with Producer(closed_address) as producer:
        with pytest.raises(KafkaError, match="refused"):
            await asyncio.wait_for(producer.ready(timeout=0.05), LIMIT)
        assert producer.health().state == "running"


async def test_broker_that_comes_later(kafka: EmbeddedKafka) -> None:
    """A producer that was started with every broker down sends when one appears."""
    await kafka.faults.refuse_connections(1)
    async with Producer(kafka.bootstrap_servers, reconnect_backoff_ms=10) as producer:
        task = started(producer.send_and_wait("one", b"v"))
        with pytest.raises(KafkaError):
            await producer.ready(0.02)
        await kafka.faults.accept_connections(1)
        assert (await asyncio.wait_for(task, LIMIT)).offset == 0


async def test_async_with(kafka: EmbeddedKafka) -> None:
    """The block starts and closes the producer; records from the block are written afterwards."""
    async with Producer(kafka.bootstrap_servers) as producer:
        await producer.send("one", b"v")
    assert values(kafka) == [b"v"]
    assert producer.health().state == "closed"
    assert producer.close_report is not None


async def test_async_with_an_exception_inside(kafka: EmbeddedKafka) -> None:
    """An exception leaves the block unchanged, and earlier records are written."""
    with pytest.raises(ZeroDivisionError):
        async with Producer(kafka.bootstrap_servers) as producer:
            await producer.send("one", b"v")
            raise ZeroDivisionError
    assert values(kafka) == [b"v"]


async def test_async_with_cancelled_inside(kafka: EmbeddedKafka) -> None:
    """A task cancelled in the block still closes the producer: earlier records are written."""
    sent = asyncio.Event()

    async def work() -> None:
        async with Producer(kafka.bootstrap_servers) as producer:
            await producer.send("one", b"v")
            sent.set()
            await asyncio.Event().wait()

    task = started(work())
    await sent.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert values(kafka) == [b"v"]


async def test_async_with_logs_lost_records(kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture) -> None:
    """Records that are lost at closing are logged as an error with their counts, and kept in close_report."""
    kafka.faults.delay(before=True, times=None)
    async with Producer(kafka.bootstrap_servers, close_timeout_ms=50) as producer:
        await producer.send("one", b"v")
    report = producer.close_report
    assert report is not None
    assert (report.delivered, report.not_written + report.unknown) == (0, 1)
    assert [record.levelname for record in caplog.records if "lost" in record.message] == ["ERROR"]
    assert "1" in caplog.text


@pytest.mark.parametrize("wait_ready", [-1, "1", float("nan")])
async def test_bad_wait_ready(make: Make, wait_ready: Any) -> None:
    """An invalid time is a ValueError, and nothing is started."""
    producer = make()
    with pytest.raises(ValueError, match="wait_ready"):
        await producer.start(wait_ready=wait_ready)
    assert producer.health().state == "new"


def test_constructing_needs_no_loop() -> None:
    """A producer can be made at import time: without a loop, for servers that are not there."""
    producer: Producer = Producer("nowhere.invalid:9092")
    assert producer.health().state == "new"


def test_start_in_one_loop_run_close_in_another_task() -> None:
    """start() and close() may be called from different tasks."""

    async def main() -> None:
        async with EmbeddedKafka() as kafka:
            producer = Producer(kafka.bootstrap_servers)
            await started(producer.start())
            await started(producer.send("one", b"v"))
            report = await started(producer.close())
            assert report.delivered == 1

    asyncio.run(main())


async def test_starting_connects_behind(make: Make, kafka: EmbeddedKafka) -> None:
    """After a plain start() the connection is made in the background."""
    producer = make()
    await producer.start()
    await until(lambda: kafka.brokers[0].connections)

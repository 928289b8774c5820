"""The facts for a probe: connections of every kind, the last answer, the last error with its time; from any thread."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from aioproducer import Health, MetadataTimeoutError, Producer, Stats
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import LIMIT, turns, unknown_topic, until


async def test_ready_is_connected(make: Make) -> None:
    """After a successful ready() a broker is connected and has answered, though nothing was sent."""
    producer = make()
    assert producer.health().answered_seconds_ago is None
    await producer.start(wait_ready=LIMIT)
    health = producer.health()
    assert health.connected_brokers == 1
    assert 0 <= (health.answered_seconds_ago or 0) < LIMIT
    assert "1 broker connected" in repr(producer)
    await producer.send_and_wait("one", b"v")
    assert producer.health().connected_brokers == 1, "the connection for metadata leads to the same broker"


async def test_two_brokers(make: Make) -> None:
    """Each broker is counted once."""
    async with EmbeddedKafka(2) as kafka:
        kafka.create_topic("two", 2, replication_factor=1)
        producer = Producer(kafka.bootstrap_servers)
        async with producer:
            for partition in range(2):
                await producer.send_and_wait("two", b"v", partition=partition)
            assert producer.health().connected_brokers == 2


async def test_idle_connections_are_closed(make: Make) -> None:
    """No broker is connected then; the last answer remains."""
    producer = make(connections_max_idle_ms=1)
    await producer.start(wait_ready=LIMIT)
    engine = producer._engine
    assert engine is not None
    engine.control.close_if_idle(engine.loop.time() + 1, 0.001)
    await until(lambda: producer.health().connected_brokers == 0)
    assert producer.health().answered_seconds_ago is not None


async def test_an_error_has_its_time(make: Make, kafka: EmbeddedKafka) -> None:
    """While brokers are down the error is newer than the last answer; when they are back, it is older, and kept."""
    producer = make(
        reconnect_backoff_ms=1, reconnect_backoff_max_ms=5, retry_backoff_ms=1, retry_backoff_max_ms=5
    )
    await producer.start(wait_ready=LIMIT)
    await producer.send_and_wait("one", b"v")
    assert producer.health().last_error_seconds_ago is None
    await kafka.faults.stop_broker(1)

    def is_over(health: Health) -> bool:
        answered, failed = health.answered_seconds_ago, health.last_error_seconds_ago
        assert answered is not None
        return failed is not None and answered < failed

    await until(lambda: producer.health().last_error is not None and not is_over(producer.health()))
    await kafka.faults.start_broker(1)
    await producer.send_and_wait("one", b"v")
    await until(lambda: is_over(producer.health()))
    assert producer.health().last_error is not None


async def test_an_error_that_is_over_causes_nothing(make: Make, kafka: EmbeddedKafka) -> None:
    """The connection for metadata was closed since, and a topic does not become known: the old error is not the cause."""
    producer = make(
        reconnect_backoff_ms=1, reconnect_backoff_max_ms=5, retry_backoff_ms=1, retry_backoff_max_ms=5
    )
    await producer.start(wait_ready=LIMIT)
    engine = producer._engine
    assert engine is not None
    engine.last_error = OSError("of yesterday")
    assert str(engine.present_trouble) == "of yesterday"
    await producer.send_and_wait("one", b"v")
    assert engine.present_trouble is None
    assert str(producer.health().last_error) == "of yesterday"
    unknown_topic(kafka)
    with pytest.raises(MetadataTimeoutError) as caught:
        await producer.partitions_for("new", timeout=0.05)
    assert "yesterday" not in str(caught.value)


@pytest.fixture
def short_turns() -> Iterator[None]:
    """Threads switch very often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("short_turns")
async def test_any_thread(make: Make) -> None:
    """stats(), health() and repr() from another thread, while records are accepted, sent and answered."""
    producer = make(linger_ms=0, batch_size=1)
    await producer.start(wait_ready=LIMIT)
    await producer.partitions_for("four")
    readings: list[Any] = []
    stop = threading.Event()

    def look() -> None:
        try:
            while not stop.is_set():
                readings.append(producer.stats())
                readings.append(producer.health())
                repr(producer)
        except BaseException as error:  # noqa: BLE001  # reported to the test
            readings.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(30):
            for number in range(50):
                await producer.send("four", b"v", partition=number % 4)
            await turns(5)
            await producer.flush()
    finally:
        stop.set()
        thread.join()
    assert {type(one) for one in readings} == {Stats, Health}

"""stats() and health() from any thread at any time, and counters that never go back."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from aioproducer import Health, Histogram, Producer, Stats
from aioproducer._callers.copied import retried
from aioproducer._state.batching.batch_deadlines import BatchDeadlines
from aioproducer.testing import EmbeddedKafka
from tests.api.support import LIMIT, until

CALLS = 10_000
WRITTEN = 2_000
COUNTERS = (
    "records_accepted", "bytes_accepted", "records_acked", "bytes_acked", "records_failed", "records_not_written",
    "records_unknown", "records_retried", "batches", "batches_split", "requests", "memory_waits", "memory_wait_seconds",
    "metadata_waits", "metadata_wait_seconds", "loop_stalls", "loop_stall_seconds", "longest_loop_stall",
)  # fmt: skip
HISTOGRAMS = (
    "queue_time",
    "request_time",
    "delivery_time",
    "batch_size",
    "batch_records",
    "compression_ratio",
)
OF_CONNECTIONS = (
    "requests", "request_errors", "bytes_sent", "bytes_received", "throttle_seconds", "connects", "failures",
)  # fmt: skip


@pytest.fixture
def short_turns() -> Iterator[None]:
    """Threads switch very often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def counted(histogram: Histogram) -> tuple[int, ...]:
    """The number of values up to each bound, and in total."""
    return tuple(itertools.accumulate(histogram.counts))


def counters(stats: Stats) -> dict[str, Any]:
    """All counters, which may only grow."""
    found: dict[str, Any] = {name: getattr(stats, name) for name in COUNTERS}
    for name in HISTOGRAMS:
        found[name] = counted(getattr(stats, name))
    for name, topic in stats.topics.items():
        found[f"topic {name}"] = tuple(topic)
    for failure in stats.failures:
        found[f"failure {failure[:3]}"] = failure.records
    for one in stats.connections:
        for name in OF_CONNECTIONS:
            found[f"{name} of {one.broker}"] = getattr(one, name)
        found[f"request_time of {one.broker}"] = counted(one.request_time)
    return found


def went_back(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The counters that are smaller, or gone."""
    found = []
    for name, value in before.items():
        now = after.get(name, value if " of " in name else None)
        is_smaller = now is None or (
            any(new < old for old, new in zip(value, now, strict=True))
            if isinstance(value, tuple)
            else now < value
        )
        if is_smaller:
            found.append(f"{name}: {value}, then {now}")
    return found


@attrs.define
class Looker:
    """A thread that reads a producer without pause."""

    producer: Producer[Any, Any]
    calls: int = 0
    faults: list[str] = attrs.Factory(list)
    stop: threading.Event = attrs.Factory(threading.Event)

    def run(self) -> None:
        before: dict[str, Any] = {}
        try:
            while not self.stop.is_set() or self.calls < CALLS // 2:
                stats, health = self.producer.stats(), self.producer.health()
                assert isinstance(health, Health)
                repr(self.producer)
                health.as_dict()
                after = counters(stats)
                self.faults += went_back(before, after)
                before = {**before, **after}
                assert stats.records_failed == stats.records_not_written + stats.records_unknown
                assert min(stats.records_buffered, stats.bytes_buffered, stats.records_in_flight) >= 0
                self.calls += 2
        except BaseException as error:  # noqa: BLE001  # reported to the test
            self.faults.append(repr(error))


async def send_at_full_speed(producer: Producer[Any, Any], stop: threading.Event) -> None:
    """Sends records to topics that come and go, with a callback that reads as well."""

    def look(_: object) -> None:
        producer.stats()
        producer.health()

    for round_ in itertools.count():
        if stop.is_set():
            return
        topic = f"t{round_ % 50}"
        for number in range(50):
            delivery = await producer.send(topic, b"v" * 100, partition=number % 2)
        delivery.add_done_callback(look)
        producer.send_nowait(topic, b"v")
        if round_ % 10 == 9:
            producer.purge(topic)
        await asyncio.sleep(0)


async def make_trouble(kafka: EmbeddedKafka, producer: Producer[Any, Any], stop: threading.Event) -> None:
    """After every few records brokers fail and come back, and answers are errors."""
    for round_ in itertools.count(1):
        written = round_ * 200
        await until(lambda: stop.is_set() or producer.stats().records_acked >= written)  # noqa: B023  # awaited here
        if stop.is_set():
            return
        broker = 1 + round_ % 2
        kafka.faults.error("NOT_ENOUGH_REPLICAS", times=3)
        kafka.faults.error("INVALID_REQUIRED_ACKS", times=1)
        await kafka.faults.stop_broker(broker)
        await asyncio.sleep(0)
        await kafka.faults.start_broker(broker)
        await asyncio.sleep(0)


def is_enough(producer: Producer[Any, Any], lookers: list[Looker]) -> bool:
    """Whether a fault was found, or every looker has looked often enough."""
    if any(looker.faults for looker in lookers):
        return True
    return sum(looker.calls for looker in lookers) >= CALLS and producer.stats().records_acked >= WRITTEN


@pytest.mark.usefixtures("short_turns")
@pytest.mark.timeout(120)
async def test_two_threads_look_at_a_busy_producer() -> None:
    """10,000 calls while records, topics and connections come and go, and while the producer closes: no error, nothing goes back."""
    async with EmbeddedKafka(2, default_partitions=2) as kafka:
        producer = Producer(
            kafka.bootstrap_servers,
            linger_ms=0,
            reconnect_backoff_ms=1,
            reconnect_backoff_max_ms=5,
            retry_backoff_ms=1,
            retry_backoff_max_ms=5,
            buffer_memory=200_000,
            compression_type="lz4",
        )
        lookers = [Looker(producer), Looker(producer)]
        threads = [threading.Thread(target=looker.run) for looker in lookers]
        for thread in threads:
            thread.start()
        await producer.start(wait_ready=LIMIT)
        stop = threading.Event()
        tasks = [
            asyncio.create_task(send_at_full_speed(producer, stop)),
            asyncio.create_task(make_trouble(kafka, producer, stop)),
        ]
        await until(lambda: is_enough(producer, lookers))
        stop.set()
        await asyncio.gather(*tasks)
        await producer.close(timeout=LIMIT)
        for looker in lookers:
            looker.stop.set()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert [looker.faults for looker in lookers] == [[], []]
        assert sum(looker.calls for looker in lookers) >= CALLS
        stats = producer.stats()
        assert stats.records_acked >= WRITTEN
        assert (
            stats.records_buffered,
            stats.bytes_buffered,
            stats.records_in_flight,
            stats.bytes_in_flight,
        ) == (0,) * 4


async def test_a_queue_that_changes_while_it_is_read(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its iterator raises RuntimeError: `stats()` reads it again."""
    whole, calls = BatchDeadlines.oldest_unacked, itertools.count()

    def changes_once(deadlines: BatchDeadlines) -> float | None:
        if not next(calls):
            raise RuntimeError("deque mutated during iteration")
        return whole(deadlines)

    async with Producer(kafka.bootstrap_servers) as producer:
        monkeypatch.setattr(BatchDeadlines, "oldest_unacked", changes_once)
        assert producer.stats().oldest_unacked_seconds is None
    assert next(calls) >= 2


def test_a_look_without_room_on_the_stack() -> None:
    """It raises the RecursionError, as other calls do there: it was repeated without end."""
    errors = [RuntimeError("changed size during iteration"), RecursionError(), RecursionError()]

    def read() -> str:
        if errors:
            raise errors.pop(0)
        return "read"

    with pytest.raises(RecursionError):
        retried(read)
    errors[:] = [RuntimeError("changed size during iteration")]
    assert retried(read) == "read"

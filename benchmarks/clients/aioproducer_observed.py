"""aioproducer: the cost of being seen from outside, as differences to the same work without it, in processor time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from prometheus_client import CollectorRegistry, generate_latest

from aioproducer import (
    ConnectionStats,
    Failure,
    Health,
    Histogram,
    Outcome,
    Producer,
    Stats,
    TopicStats,
)
from aioproducer._net.telemetry.telemetry import Telemetry
from aioproducer._state.telemetry.registered import RegisteredMetrics
from aioproducer._state.telemetry.subscription import Subscription
from aioproducer.listeners import BatchReport
from aioproducer.otel import Metrics, Tracing
from aioproducer.prometheus import ProducerCollector
from aioproducer.stats import SECONDS_BOUNDS
from benchmarks.clients.ours import make_producer, own_version, run
from benchmarks.measure import Round, Stopwatch, Work

_HOUR_MS = 3_600_000
_TOPICS = 50
_BROKERS = 10
_LINKS = 32
# Each is measured so often; the least is the figure.
_TIMES = 7
_PATIENT: Final[dict[str, Any]] = {
    "linger_ms": _HOUR_MS,
    "delivery_timeout_ms": 2 * _HOUR_MS,
    "batch_size": 1 << 26,
    "max_request_size": 1 << 26,
    "buffer_memory": 1 << 28,
}


class _Listener:
    """Does nothing with a report."""

    def on_batch(self, report: BatchReport) -> None:
        """A batch has its outcome."""


class _Large(Producer[Any, Any]):
    """A producer with the statistics of many topics and brokers."""

    def stats(self) -> Stats:
        """Each topic has failed once, and each broker has answered."""
        names = [f"a-topic-of-usual-length-{number}" for number in range(_TOPICS)]
        times = Histogram(SECONDS_BOUNDS, (5,) * (len(SECONDS_BOUNDS) + 1), 7.5)
        return Stats(
            topics={name: TopicStats(1_234_567, 123_456_789, 3, 1_234, 12_345) for name in names},
            failures=tuple(Failure(name, "REQUEST_TIMED_OUT", Outcome.UNKNOWN, 3) for name in names),
            connections=tuple(
                ConnectionStats(str(number), "connected", address=f"10.0.0.{number}:9092", request_time=times)
                for number in range(_BROKERS)
            ),
        )

    def health(self) -> Health:
        """A healthy one."""
        return Health("running", ready=True)


def _least(call: Callable[[], object], repeats: int = 1) -> float:
    """The least processor time of a call, in seconds."""

    def once() -> float:
        began = time.thread_time()
        for _ in range(repeats):
            call()
        return (time.thread_time() - began) / repeats

    return min(once() for _ in range(_TIMES))


async def _least_of(works: dict[str, Callable[[], Awaitable[int]]]) -> dict[str, float]:
    """The least processor time of each, in seconds for one of what it counts; in turns, so that all are disturbed alike."""
    least = dict.fromkeys(works, float("inf"))
    for _ in range(_TIMES):
        for name, work in works.items():
            began = time.thread_time()
            count = await work()
            least[name] = min(least[name], (time.thread_time() - began) / count)
    return least


def _contexts() -> Iterator[Context]:
    rng = random.Random(1)
    while True:
        found = SpanContext(rng.getrandbits(127) + 1, rng.getrandbits(63) + 1, False, TraceFlags(1))
        yield trace.set_span_in_context(NonRecordingSpan(found), Context())


async def _batches(one: Work) -> dict[str, float]:
    """Batches of one record each, so that the cost of a batch shows."""

    def sending(producer: Producer) -> Callable[[], Awaitable[int]]:
        async def send() -> int:
            before = producer.stats().batches
            for value in one.values(one.records):
                await producer.send(one.topic, value)
            (await producer.flush()).raise_for_errors()
            return producer.stats().batches - before

        return send

    small = {"batch_size": 1, "linger_ms": 0}
    producers = {name: make_producer(one, **small) for name in ("none", "prometheus", "otel")}
    producers["listener"] = make_producer(one, **small, listeners=[_Listener()])
    collector = ProducerCollector(producers["prometheus"])
    metrics = Metrics(producers["otel"], meter_provider=MeterProvider([InMemoryMetricReader()]))
    try:
        for producer in producers.values():
            await producer.start()
        least = await _least_of({name: sending(producer) for name, producer in producers.items()})
    finally:
        for producer in producers.values():
            await producer.close()
        metrics.close()
        collector.remove(producers["prometheus"])
    return {f"{name}_us": (least[name] - least["none"]) * 1e6 for name in ("listener", "prometheus", "otel")}


async def _records(one: Work) -> dict[str, float]:
    """Records that are only buffered, with and without tracing."""
    some = [context for context, _ in zip(_contexts(), range(one.records), strict=False)]

    def sending(producer: Producer, which: str) -> Callable[[], Awaitable[int]]:
        async def send() -> int:
            send, topic = producer.send, one.topic
            outer = context.attach(some[0]) if which == "same" else None
            if which == "other":
                for value, present in zip(one.values(one.records), some, strict=True):
                    token = context.attach(present)
                    await send(topic, value)
                    context.detach(token)
            else:
                for value in one.values(one.records):
                    await send(topic, value)
            if outer is not None:
                context.detach(outer)
            producer.purge()
            return one.records

        return send

    async with (
        make_producer(one, **_PATIENT) as plain,
        make_producer(one, **_PATIENT, tracing=Tracing(TracerProvider())) as traced,
    ):
        for producer in (plain, traced):
            await producer.partitions_for(one.topic)
        cases = ("none", "same", "other")
        least = await _least_of(
            {
                f"{producer is traced}{case}": sending(producer, case)
                for producer in (plain, traced)
                for case in cases
            }
        )
    return {f"context_{case}_us": (least[f"True{case}"] - least[f"False{case}"]) * 1e6 for case in cases}


def _span(topic: str) -> dict[str, float]:
    tracing = Tracing(TracerProvider())
    tokens = []
    for present, _ in zip(_contexts(), range(_LINKS), strict=False):
        found = tracing.propagation.in_context(present)
        assert found is not None  # noqa: S101  # a sampled one
        tokens.append(found[1])
    now = asyncio.get_running_loop().time()
    report = BatchReport(
        topic=topic,
        partition=0,
        records=_LINKS,
        bytes=1,
        compressed_bytes=1,
        outcome=Outcome.ACKED,
        error=None,
        attempts=1,
        base_offset=0,
        broker="1",
        address="10.0.0.1:9092",
        opened_at=now,
        drained_at=now,
        written_at=now,
        answered_at=now,
        wall_ms=0,
        contexts=tuple(tokens),
    )
    of_producer = tracing.for_producer("c")
    return {"span_us": _least(lambda: of_producer.on_batch(report), 200) * 1e6}


async def _looks(one: Work) -> dict[str, float]:
    """`stats()` and a push with many buffered records, and a scrape of many topics."""
    async with make_producer(one, **_PATIENT) as producer:
        await producer.partitions_for(one.topic)
        for value in one.values(one.records):
            await producer.send(one.topic, value)
        engine = producer._engine  # noqa: SLF001  # a broker of this benchmark takes no metrics
        assert engine is not None  # noqa: S101  # it runs
        for number in range(_TOPICS):
            _ = engine.tally.topics[f"a-topic-of-usual-length-{number}"]
        telemetry = Telemetry(engine, RegisteredMetrics, engine.loop.time(), None)
        subscription = Subscription(1, ("*",), codec=4)
        stats_ms = _least(producer.stats, 20) * 1e3
        push_ms = _least(lambda: telemetry._payload(subscription), 5) * 1e3  # noqa: SLF001  # as above
        producer.purge()
    registry, large = CollectorRegistry(), _Large("localhost:9092")
    ProducerCollector(large, registry=registry)
    scrape_ms = _least(lambda: generate_latest(registry), 3) * 1e3
    return {"stats_ms": stats_ms, "push_ms": push_ms, "scrape_ms": scrape_ms}


async def _program(one: Work) -> Round:
    with Stopwatch() as watch:
        figures = {**await _batches(one), **await _records(one), **_span(one.topic), **await _looks(one)}
    return watch.round(one.records, own_version(), **figures)


if __name__ == "__main__":
    run(_program)

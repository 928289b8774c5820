"""OpenTelemetry in whole lives under faults: the sums agree with what the judge counted, and a tracer changes no outcome."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any
from unittest import mock

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from aioproducer import BatchReport, Outcome, Producer
from aioproducer.otel import Metrics, Tracing
from tests.effort import seeds
from tests.judge.history import Found, found
from tests.simulation import bookkeeping, chaos
from tests.simulation.world import World, simulate

Sums = Counter[str]


class Observed:
    """The SDK, and the metrics and spans of all producers of one world."""

    def __init__(self, tracing: Any = None, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self._reader = InMemoryMetricReader()
        self._meters = MeterProvider([self._reader])
        self._tracing = tracing if tracing is not None else Tracing(self.provider, bulk=True, **options)

    def simulate(self, play: Any, seed: int, **options: Any) -> World:
        """A simulation in which each task sends under a span of its own."""
        make = World.producer

        @functools.wraps(make)
        def producer(world: World, **settings: Any) -> Producer[Any, Any]:
            made = make(world, tracing=self._tracing, **settings)
            Metrics(made, meter_provider=self._meters)
            return made

        def without_context(topic: str, *place: Any) -> Found:
            partition, offset, key, value, headers, timestamp = place
            own = tuple(pair for pair in headers if pair[0] != "traceparent")
            return found(topic, partition, offset, key, value, own, timestamp)

        async def in_a_span(world: World) -> None:
            with self.provider.get_tracer("test").start_as_current_span("life"):
                await play(world)

        with (
            mock.patch.object(World, "producer", producer),
            mock.patch("tests.simulation.world.found", without_context),
        ):
            return simulate(in_a_span, seed, **options)

    def counted(self) -> Sums:
        """Records by their outcome, of each metric."""
        sums: Sums = Counter()
        data = self._reader.get_metrics_data()
        assert data is not None
        for metric in data.resource_metrics[0].scope_metrics[0].metrics:
            for point in metric.data.data_points:
                attributes = point.attributes or {}
                outcome = attributes.get("aioproducer.outcome", "")
                kind = "failed" if "error.type" in attributes else "acked"
                name = f"sent {kind}" if metric.name == "messaging.client.sent.messages" else metric.name
                sums[f"{name} {outcome}".strip()] += getattr(point, "value", 0)
        return sums

    def traced(self) -> Sums:
        """Records by their outcome, of all spans of batches."""
        sums: Sums = Counter()
        for span in self.exporter.get_finished_spans():
            if span.kind is SpanKind.CLIENT:
                facts: Any = span.attributes
                sums[facts.get("aioproducer.outcome", "acked")] += facts["messaging.batch.message_count"]
        return sums


def agree(observed: Observed) -> Sums:
    """The metrics once per batch, those of the statistics, and the spans count the same; returns the counts of the spans."""
    counted, traced = observed.counted(), observed.traced()
    failed = "aioproducer.records.failed"
    assert traced["acked"] == counted["sent acked"] == counted["aioproducer.records.acked"]
    # A record of send_nowait() without a place has no batch.
    assert traced["not_written"] + traced["unknown"] == counted["sent failed"]
    assert counted["sent failed"] <= counted[f"{failed} not_written"] + counted[f"{failed} unknown"]
    assert traced["unknown"] == counted[f"{failed} unknown"]
    return traced


@pytest.mark.parametrize("seed", seeds(6))
def test_the_sums_are_those_of_the_judge(seed: int) -> None:
    """Faults, splits, retries, expiry, withdrawals: each record is in one span and in one count."""
    observed = Observed(per_record=seed % 2 == 1)
    world = observed.simulate(chaos.live, seed)
    traced = agree(observed)
    outcomes = Counter(sent.outcome for sent in world.ledger.history())
    assert traced["acked"] == outcomes[Outcome.ACKED]
    if not any(entry.withdrawn for entry in world.ledger.entries):
        assert traced["unknown"] == outcomes[Outcome.UNKNOWN]
    kinds = Counter(span.kind for span in observed.exporter.get_finished_spans())
    assert (kinds[SpanKind.PRODUCER] > 0) == (seed % 2 == 1)


@pytest.mark.parametrize("seed", range(2))
def test_the_sums_of_transactions(seed: int) -> None:
    """... also where transactions are aborted, and producers are fenced."""
    observed = Observed()
    observed.simulate(bookkeeping.live, seed, transaction_version=1 + seed % 2)
    assert agree(observed)["acked"] > 0


class Hostile:
    """A tracer that fails, sends and answers nonsense, in turn."""

    bulk = True

    def __init__(self) -> None:
        self.turn = 0
        self.reports = 0

    def context(self) -> Any:
        self.turn += 1
        if self.turn % 4 == 0:
            raise RuntimeError("a tracer that fails")
        return (None, ((("traceparent", b"\xff" * 55),), object()), "nonsense")[self.turn % 3]

    def on_batch(self, report: BatchReport) -> None:
        self.reports += 1
        if self.reports % 2:
            raise RuntimeError("a tracer that fails")


@pytest.mark.parametrize("seed", range(3))
def test_a_hostile_tracer_changes_no_outcome(seed: int) -> None:
    """The judge finds nothing: `simulate()` raises otherwise."""
    tracer = Hostile()
    world = Observed(tracer).simulate(chaos.live, seed)
    assert any(sent.outcome is Outcome.ACKED for sent in world.ledger.history())
    assert min(tracer.turn, tracer.reports) > 1

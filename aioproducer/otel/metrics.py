"""Metrics: observable counters and gauges from the statistics of producers, and the convention's two from their batches."""

from __future__ import annotations

import asyncio
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from aioproducer import __version__
from aioproducer.errors import error_name
from aioproducer.otel import names
from aioproducer.otel.facts import server_of
from aioproducer.otel.readings import READINGS, Topics, observed, snapshots_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from opentelemetry.metrics import Meter, MeterProvider

    from aioproducer.listeners import BatchReport
    from aioproducer.otel.facts import Attributes
    from aioproducer.otel.readings import Reading, Snapshot
    from aioproducer.producer import Producer


class Metrics:
    """The metrics of these producers, which are held weakly, until `close()`.

    `topics` is True, False or the names of the topics to show; all others, and those beyond `max_topics`, are `_other`.
    Producers with equal `client_id` are summed.
    """

    def __init__(
        self,
        *producers: Producer[Any, Any],
        meter_provider: MeterProvider | None = None,
        topics: bool | Collection[str] = True,
        max_topics: int = 100,
    ) -> None:
        self._producers = [weakref.ref(producer) for producer in producers]
        self._topics = Topics(topics, max_topics)
        self._snapshots: list[Snapshot] = []
        # The metrics that were read from these snapshots: the second reading of one begins a new collection.
        self._read: set[str] = set()
        meter = metrics.get_meter(names.SCOPE, __version__, meter_provider, names.SCHEMA_URL)
        for reading in READINGS:
            make = meter.create_observable_gauge if reading.is_gauge else meter.create_observable_counter
            make(reading.name, [partial(self._observe, reading)], reading.unit, reading.text)
        self._batches = BatchMetrics(meter, self._topics)
        for producer in producers:
            producer._add_listener(self._batches)  # noqa: SLF001  # the only way to add one later

    def close(self) -> None:
        """Observe nothing any more."""
        for reference in self._producers:
            producer = reference()
            if producer is not None:
                producer._remove_listener(self._batches)  # noqa: SLF001  # as above
        self._producers.clear()

    def _observe(self, reading: Reading, options: CallbackOptions) -> list[Observation]:
        del options
        if reading.name in self._read or not self._read:
            self._read = set()
            self._snapshots = snapshots_of(self._producers)
        self._read.add(reading.name)
        values = observed(reading, self._snapshots, self._topics)
        return [Observation(value, dict(attributes)) for attributes, value in values.items()]


class BatchMetrics:
    """A listener that records the metrics that the convention requires, once for each batch."""

    def __init__(self, meter: Meter, topics: Topics) -> None:
        self._topics = topics
        self._sent = meter.create_counter(
            names.SENT_MESSAGES, "{message}", "Number of messages that the producer attempted to send"
        )
        self._duration = meter.create_histogram(
            names.OPERATION_DURATION,
            "s",
            "Duration of the sending of a batch",
            explicit_bucket_boundaries_advisory=names.DURATION_BOUNDS,
        )

    def on_batch(self, report: BatchReport) -> None:
        """Record a batch that has its outcome."""
        attributes: Attributes = {
            **names.OF_SENDS,
            names.DESTINATION: self._topics.name_of(report.topic),
            **server_of(report.address),
        }
        if report.error is not None:
            attributes[names.ERROR_TYPE] = error_name(report.error)
        self._sent.add(report.records, attributes)
        if report.written_at is not None:
            ended = report.answered_at
            if ended is None or ended < report.written_at:
                # The newest attempt had no answer.
                ended = asyncio.get_running_loop().time()
            self._duration.record(ended - report.written_at, attributes)

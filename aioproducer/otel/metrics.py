"""Metrics: observable counters and gauges from the statistics of producers, and the convention's two from their batches."""

from __future__ import annotations

import asyncio
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
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
        self._source = Source([weakref.ref(producer) for producer in producers], Topics(topics, max_topics))
        self._observables = _observables_of(meter_provider)
        self._observables.sources += (self._source,)
        self._batches = BatchMetrics(_meter_of(meter_provider), self._source.topics)
        for producer in producers:
            producer._add_listener(self._batches)  # noqa: SLF001  # the only way to add one later

    def close(self) -> None:
        """Observe nothing any more."""
        sources = self._observables.sources
        self._observables.sources = tuple(one for one in sources if one is not self._source)
        for reference in self._source.producers:
            producer = reference()
            if producer is not None:
                producer._remove_listener(self._batches)  # noqa: SLF001  # as above


@attrs.frozen(eq=False)
class Source:
    """The producers of one `Metrics`, and the topics that it shows."""

    producers: list[weakref.ref[Producer[Any, Any]]]
    topics: Topics


class Observables:
    """The observable instruments of one meter provider, for all `Metrics` that use it.

    A meter ignores the callbacks of a second instrument of the same name.
    """

    def __init__(self, meter: Meter) -> None:
        self.sources: tuple[Source, ...] = ()
        self._snapshots: list[tuple[Source, list[Snapshot]]] = []
        # The metrics that were read from these snapshots: the second reading of one begins a new collection.
        self._read: set[str] = set()
        for reading in READINGS:
            make = meter.create_observable_gauge if reading.is_gauge else meter.create_observable_counter
            make(reading.name, [partial(self._observe, reading)], reading.unit, reading.text)

    def _observe(self, reading: Reading, options: CallbackOptions) -> list[Observation]:
        del options
        if reading.name in self._read or not self._read:
            self._read = set()
            self._snapshots = [(source, snapshots_of(source.producers)) for source in self.sources]
        self._read.add(reading.name)
        values = observed(reading, ((taken, source.topics) for source, taken in self._snapshots))
        return [Observation(value, dict(attributes)) for attributes, value in values.items()]


def _meter_of(provider: MeterProvider | None) -> Meter:
    return metrics.get_meter(names.SCOPE, __version__, provider, names.SCHEMA_URL)


_lock = threading.Lock()
_observables: weakref.WeakKeyDictionary[MeterProvider, Observables] = weakref.WeakKeyDictionary()
# Those of the program's own provider, which may be set later.
_observables_of_program: list[Observables] = []


def _observables_of(provider: MeterProvider | None) -> Observables:
    with _lock:
        if provider is None or provider is metrics.get_meter_provider():
            if not _observables_of_program:
                _observables_of_program.append(Observables(_meter_of(None)))
            return _observables_of_program[0]
        if provider not in _observables:
            _observables[provider] = Observables(_meter_of(provider))
        return _observables[provider]


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

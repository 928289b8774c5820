"""Metrics: observable counters and gauges from the statistics of producers, and the convention's two from their batches."""

from __future__ import annotations

import asyncio
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from aioproducer import __version__
from aioproducer._metrics.producers import Producers
from aioproducer._metrics.table import Kind
from aioproducer._metrics.topic_names import TopicNames
from aioproducer.errors import error_name
from aioproducer.otel import names
from aioproducer.otel.facts import server_of
from aioproducer.otel.readings import OBSERVED, name_of, unit_of, values_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from opentelemetry.metrics import Meter, MeterProvider

    from aioproducer.listeners import BatchReport
    from aioproducer.otel.facts import Attributes
    from aioproducer.otel.readings import Places, Values
    from aioproducer.producer import Producer


class Metrics:
    """The metrics of these producers, which are held weakly, until `close()`.

    `topics` is True, False or the names of the topics to show; all others, and those beyond `max_topics`, are `_other`.
    Producers with equal `client_id` are summed. A counter never goes back, also when its producer is garbage-collected.
    """

    def __init__(
        self,
        *producers: Producer[Any, Any],
        meter_provider: MeterProvider | None = None,
        topics: bool | Collection[str] = True,
        max_topics: int = 100,
    ) -> None:
        names_of_topics = TopicNames(topics, max_topics)
        self._watched = [weakref.ref(producer) for producer in producers]
        self._source = Producers(names_of_topics)
        self._observables = _observables_of(meter_provider)
        self._observables.sources += (self._source,)
        self._batches = BatchMetrics(_meter_of(meter_provider), names_of_topics)
        for producer in producers:
            self._source.add(producer)
            producer._add_listener(self._batches)  # noqa: SLF001  # the only way to add one later

    def close(self) -> None:
        """Observe nothing any more."""
        sources = self._observables.sources
        self._observables.sources = tuple(one for one in sources if one is not self._source)
        for reference in self._watched:
            producer = reference()
            if producer is not None:
                producer._remove_listener(self._batches)  # noqa: SLF001  # as above


class Observables:
    """The observable instruments of one meter provider, for all `Metrics` that use it.

    A meter ignores the callbacks of a second instrument of the same name.
    """

    def __init__(self, meter: Meter) -> None:
        self.sources: tuple[Producers, ...] = ()
        self._values: dict[str, Values] = {}
        self._places: Places = {}
        # The metrics that were read of these values: the second reading of one begins a new collection.
        self._read: set[str] = set()
        for metric in OBSERVED:
            is_gauge = metric.kind is Kind.GAUGE
            make = meter.create_observable_gauge if is_gauge else meter.create_observable_counter
            make(name_of(metric), [partial(self._observe, metric.name)], unit_of(metric), metric.help)

    def _observe(self, name: str, options: CallbackOptions) -> list[Observation]:
        del options
        if name in self._read or not self._read:
            self._read = set()
            readings = [reading for source in self.sources for reading in source.read()]
            self._values = values_of(readings, self._places)
        self._read.add(name)
        found = self._values.get(name, {})
        return [Observation(value, cast("Attributes", dict(key))) for key, value in found.items()]


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

    def __init__(self, meter: Meter, topics: TopicNames) -> None:
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
            names.DESTINATION: self._topics[report.topic],
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

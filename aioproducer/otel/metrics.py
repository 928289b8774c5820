"""Metrics: observable counters and gauges from the statistics of producers, and the convention's two from their batches."""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import attrs
from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from aioproducer import __version__
from aioproducer._callers.copied import copied
from aioproducer._metrics.locks import ForkSafeLock
from aioproducer._metrics.producers import Producers
from aioproducer._metrics.table import Kind
from aioproducer._metrics.topic_names import TopicNames
from aioproducer.errors import error_name
from aioproducer.otel import names
from aioproducer.otel.facts import server_of
from aioproducer.otel.readings import OBSERVED, name_of, unit_of, values_of
from aioproducer.producer import Producer

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, Meter

    from aioproducer.listeners import BatchReport
    from aioproducer.otel.facts import Attributes
    from aioproducer.otel.readings import Places, Values


class Metrics:
    """The metrics of these producers, which are held weakly, until `close()`.

    `topics` is True, False or the names of the topics to show; all others, and those beyond `max_topics`, are `_other`.
    Producers with equal `client_id` are summed. A producer in several `Metrics` of one provider is counted once, with the
    topics of the first. A counter never goes back, also when its producer is garbage-collected.
    """

    def __init__(
        self,
        *producers: Producer[Any, Any],
        meter_provider: MeterProvider | None = None,
        topics: bool | Collection[str] = True,
        max_topics: int = 100,
    ) -> None:
        names_of_topics = TopicNames(topics, max_topics)
        self._observables = _observables_of(meter_provider)
        self._watched: list[tuple[weakref.ref[Producer[Any, Any]], str]] = []
        with _lock:
            for producer in dict.fromkeys(producers):
                self._observables.present().watch(producer, names_of_topics)
                self._watched.append((weakref.ref(producer), producer.config.client_id))

    def close(self) -> None:
        """Observe these producers no more.

        Their counters so far remain in the sums of a `client_id` that other `Metrics` observe as well.
        """
        with _lock:
            watched, self._watched = self._watched, []
            for reference, client_id in watched:
                self._observables.present().leave(reference(), client_id)


@attrs.define(eq=False)
class Series:
    """The messages with one set of attributes."""

    attributes: Attributes
    messages: int = 0


@attrs.define(eq=False)
class _Watched:
    """One producer, by how many `Metrics` it is watched, and the listener to its batches."""

    batches: BatchMetrics
    users: int = 0


class Observables:
    """The instruments of one meter provider, for all `Metrics` that use it. A producer is counted once.

    A meter ignores the callbacks of a second instrument of the same name.
    """

    def __init__(self, meter: Meter, *, is_of_program: bool = False) -> None:
        self._producers = Producers(lock=_lock)
        self._watched: weakref.WeakKeyDictionary[Producer[Any, Any], _Watched] = weakref.WeakKeyDictionary()
        # By how many `Metrics` the producers of each client id are watched.
        self._users: Counter[str] = Counter()
        self._merged_into: Observables | None = None
        # The provider of the program is not set yet: nothing is counted, as by the instruments of such a provider.
        self._is_without_provider = is_of_program
        # Observed, and not added batch by batch: an addition costs as much as the record of the duration.
        self._sent: dict[tuple[tuple[str, object], ...], Series] = {}
        meter.create_observable_counter(
            names.SENT_MESSAGES,
            [self._observe_sent],
            "{message}",
            "Number of messages that the producer attempted to send",
        )
        self._duration = meter.create_histogram(
            names.OPERATION_DURATION,
            "s",
            "Duration of the sending of a batch",
            explicit_bucket_boundaries_advisory=names.DURATION_BOUNDS,
        )
        self._values: dict[str, Values] = {}
        self._places: Places = {}
        # The metrics that were read of these values: the second reading of one begins a new collection.
        self._read: set[str] = set()
        for metric in OBSERVED:
            is_gauge = metric.kind is Kind.GAUGE
            make = meter.create_observable_gauge if is_gauge else meter.create_observable_counter
            make(name_of(metric), [partial(self._observe, metric.name)], unit_of(metric), metric.help)

    def present(self) -> Observables:
        """Those whose instruments are in use: others of the same provider, where it was set for the program later."""
        for program in _observables_of_program:
            if program._is_without_provider:  # noqa: SLF001  # of this class
                program._look_for_provider()  # noqa: SLF001  # as above
        return self._merged_into or self

    def _look_for_provider(self) -> None:
        provider = metrics.get_meter_provider()
        known = _observables.get(provider)
        if known is not None:
            self._merge_into(known)
        # A provider is set once.
        self._is_without_provider = isinstance(provider, _PLACEHOLDER)

    def _merge_into(self, other: Observables) -> None:
        with _lock:
            if self._merged_into is None:
                self._merged_into = other
                self._hand_over(other)

    def _hand_over(self, other: Observables) -> None:
        for producer, watched in list(self._watched.items()):
            known = other._watched.setdefault(producer, watched)
            if known is not watched:
                known.users += watched.users
                watched.batches.is_over = True
                producer._remove_listener(watched.batches)  # noqa: SLF001  # the only way to remove one
        other._users.update(self._users)
        other._producers.take_over(self._producers)

    def watch(self, producer: Producer[Any, Any], topics: TopicNames) -> None:
        """Count this producer, with these topics if no other `Metrics` has it."""
        watched = self._watched.get(producer)
        if watched is None:
            watched = _Watched(BatchMetrics(self, self._duration, topics))
            self._watched[producer] = watched
            self._producers.add(producer, topics)
            producer._add_listener(watched.batches)  # noqa: SLF001  # the only way to add one later
        watched.users += 1
        self._users[producer.config.client_id] += 1

    def leave(self, producer: Producer[Any, Any] | None, client_id: str) -> None:
        """A `Metrics` with this producer is closed; None: the producer is gone."""
        watched = None if producer is None else self._watched[producer]
        if producer is not None and watched is not None:
            watched.users -= 1
            if not watched.users:
                del self._watched[producer]
                producer._remove_listener(watched.batches)  # noqa: SLF001  # as above
                self._producers.remove(producer)
        self._users[client_id] -= 1
        if not self._users[client_id]:
            del self._users[client_id]
            self._producers.hide(client_id)

    def count(self, series: Series, messages: int) -> None:
        """Count the messages of a batch, unless no meter provider was set."""
        if not self._is_without_provider:
            with _counting:
                series.messages += messages

    def series_with(self, attributes: Attributes) -> Series:
        """The messages with these attributes."""
        return self._sent.setdefault(tuple(attributes.items()), Series(attributes))

    def _observe_sent(self, options: CallbackOptions) -> list[Observation]:
        del options
        present = self.present()
        return [Observation(each.messages, each.attributes) for each in copied(present._sent.values())]  # noqa: SLF001  # of this class

    def _observe(self, name: str, options: CallbackOptions) -> list[Observation]:
        del options
        if name in self._read or not self._read:
            self._read = set()
            with _lock:
                readings = self.present()._producers.read()  # noqa: SLF001  # of this class
            self._values = values_of(readings, self._places)
        self._read.add(name)
        found = self._values.get(name, {})
        return [Observation(value, cast("Attributes", dict(key))) for key, value in found.items()]


def _meter_of(provider: MeterProvider | None) -> Meter:
    return metrics.get_meter(names.SCOPE, __version__, provider, names.SCHEMA_URL)


# For the making of instruments. Their callbacks, which run under locks of the SDK, never take it.
_making = ForkSafeLock()
# For the producers. Reentrant: a finalizer of the program may make or close `Metrics`.
_lock = ForkSafeLock()
# For the messages: producers of several loops have one series. Reentrant: a finalizer may report batches.
_counting = ForkSafeLock()
_observables: weakref.WeakKeyDictionary[MeterProvider, Observables] = weakref.WeakKeyDictionary()
# Those of the program's own provider, which may be set later.
_observables_of_program: list[Observables] = []
# The class of the provider that stands for the program's own one before that is set.
_PLACEHOLDER: Any = getattr(getattr(metrics, "_internal", None), "_ProxyMeterProvider", ())


def _observables_of(provider: MeterProvider | None) -> Observables:
    with _making:
        of_program = metrics.get_meter_provider()
        if provider is None or isinstance(provider, _PLACEHOLDER):
            provider = of_program
        found = _observables.get(provider)
        if found is None and provider is of_program:
            if not _observables_of_program:
                _observables_of_program.append(Observables(_meter_of(None), is_of_program=True))
            return _observables_of_program[0]
        if found is None:
            found = _observables[provider] = Observables(_meter_of(provider))
        return found


class BatchMetrics:
    """A listener that records the metrics that the convention requires, once for each batch."""

    def __init__(self, observables: Observables, duration: Histogram, topics: TopicNames) -> None:
        self._observables = observables
        self._duration = duration
        self._topics = topics
        # By topic, address and error: their attributes are made once. Of the observables that were in use last.
        self._series: dict[tuple[str, str | None, str | None], Series] = {}
        self._in_use = observables
        self.is_over = False

    def on_batch(self, report: BatchReport) -> None:
        """Record a batch that has its outcome."""
        # Another listener may have its place from now on.
        in_use = self._observables.present()
        if self.is_over:
            return
        if in_use is not self._in_use:
            self._in_use, self._series = in_use, {}
        topic = self._topics[report.topic]
        error = None if report.error is None else error_name(report.error)
        series = self._series.get((topic, report.address, error)) or self._new_series(
            topic, report.address, error
        )
        in_use.count(series, report.records)
        if report.written_at is not None:
            ended = report.answered_at
            if ended is None or ended < report.written_at:
                # The newest attempt had no answer.
                ended = asyncio.get_running_loop().time()
            self._duration.record(ended - report.written_at, series.attributes)

    def _new_series(self, topic: str, address: str | None, error: str | None) -> Series:
        attributes: Attributes = {**names.OF_SENDS, names.DESTINATION: topic, **server_of(address)}
        if error is not None:
            attributes[names.ERROR_TYPE] = error
        series = self._series[topic, address, error] = self._in_use.series_with(attributes)
        return series

"""Metrics of producers for Prometheus: a collector that reads them when it is scraped.

    REGISTRY.register(ProducerCollector(producer))

It needs the extra `prometheus`. See docs/monitoring.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from aioproducer import __version__
from aioproducer._metrics.producers import Producers
from aioproducer._metrics.table import METRICS, Kind
from aioproducer._metrics.topic_names import TopicNames
from aioproducer.producer import Producer

try:
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        InfoMetricFamily,
    )
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector, CollectorRegistry
    from prometheus_client.utils import floatToGoString
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "prometheus_client":
        raise
    raise ModuleNotFoundError(
        "aioproducer.prometheus requires the extra prometheus: pip install 'aioproducer[prometheus]'",
        name=error.name,
    ) from None

if TYPE_CHECKING:
    from aioproducer._metrics.producers import ClientReading
    from aioproducer.config import ProducerConfig
    from aioproducer.stats import Histogram

__all__ = ["ProducerCollector"]

_FAMILIES: Final = {
    Kind.COUNTER: CounterMetricFamily,
    Kind.GAUGE: GaugeMetricFamily,
    Kind.HISTOGRAM: HistogramMetricFamily,
}
_UNITS: Final = ("seconds", "bytes")
_HISTOGRAM_LABELS: Final = {metric.name: metric.labels for metric in METRICS if metric.kind is Kind.HISTOGRAM}
_CONSTANT_LABEL: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_NAMESPACE: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OF_INFO: Final = ("version", "acks", "compression_type", "idempotence", "transactional")
_OUR_LABELS: Final = frozenset(
    {"client_id", "le", *_OF_INFO, *(label for metric in METRICS for label in metric.labels)}
)


class ProducerCollector(Collector):
    """A collector for the registry of `prometheus_client`; it reads `stats()` and `health()` when it is scraped.

    Producers are held weakly. Those of equal `client_id` are summed; of the ages the oldest is shown, of `ready` and
    `live` the least. A counter never goes back, also when its producer is garbage-collected. `remove()` takes a producer
    off the page: while all producers of a `client_id` are removed, it is not shown.

    `labels` are added to each metric. `topics` (True: all, False: none, or their names) are shown by name, at most
    `max_topics` of them, the first that are seen; all others are summed as `_other`. With `registry`, the collector
    registers itself. Scrapes, `add()` and `remove()` may be called from any thread.
    """

    def __init__(
        self,
        *producers: Producer[Any, Any],
        namespace: str = "aioproducer",
        labels: Mapping[str, str] = MappingProxyType({}),
        topics: bool | Collection[str] = True,
        max_topics: int = 100,
        registry: CollectorRegistry | None = None,
    ) -> None:
        if not _NAMESPACE.fullmatch(namespace):
            raise ValueError(f"namespace is not the beginning of a metric name: {namespace!r}")
        self._namespace = namespace
        self._label_names = ("client_id", *map(_checked_label, labels))
        self._label_values = tuple(map(_checked_value, labels.values()))
        self._topics = TopicNames(topics, max_topics)
        self._producers = Producers()
        for producer in producers:
            self.add(producer)
        if registry is not None:
            registry.register(self)

    def add(self, producer: Producer[Any, Any]) -> None:
        """Show this producer as well; it is held weakly."""
        self._producers.add(producer, self._topics)

    def remove(self, producer: Producer[Any, Any]) -> None:
        """Show this producer no longer; its counters so far remain in the sums of its `client_id`."""
        self._producers.remove(producer)

    def describe(self) -> Iterable[Metric]:
        """The names and kinds of all metrics, without asking a producer."""
        return [*self._empty().values(), self._empty_info()]

    def collect(self) -> Iterable[Metric]:
        """All metrics of the present moment."""
        families, info = self._empty(), self._empty_info()
        for reading in self._producers.read():
            labels = (reading.client_id, *self._label_values)
            self._put(families, reading, labels)
            for facts in {_facts(config): None for config in reading.configs}:
                info.add_metric(labels, dict(facts))
        return [*families.values(), info]

    def _empty(self) -> dict[str, Any]:
        families: dict[str, Any] = {}
        for metric in METRICS:
            name = f"{self._namespace}_{metric.name}"
            unit = metric.name.rpartition("_")[2]
            families[metric.name] = _FAMILIES[metric.kind](
                name,
                metric.help,
                labels=(*self._label_names, *metric.labels),
                unit=unit if unit in _UNITS else "",
            )
        return families

    def _empty_info(self) -> InfoMetricFamily:
        text = "The version of aioproducer and the settings that matter for delivery."
        return InfoMetricFamily(self._namespace, text, labels=self._label_names)

    def _put(self, families: dict[str, Any], reading: ClientReading, labels: tuple[str, ...]) -> None:
        for (name, further), value in (*reading.counts.counters.items(), *reading.gauges.items()):
            families[name].add_metric((*labels, *further), value)
        for (name, further), histogram in reading.counts.histograms.items():
            names = (*self._label_names, *_HISTOGRAM_LABELS[name])
            _add_histogram(families[name], dict(zip(names, (*labels, *further), strict=True)), histogram)


def _add_histogram(family: Metric, labels: dict[str, str], histogram: Histogram) -> None:
    """The samples that `add_metric()` of a histogram would add, in less time: they are most of a page."""
    bucket, count = f"{family.name}_bucket", 0
    for bound, number in zip(_texts_of(histogram.bounds), histogram.counts, strict=True):
        count += number
        family.add_sample(bucket, {**labels, "le": bound}, count)
    family.add_sample(f"{family.name}_count", labels, count)
    family.add_sample(f"{family.name}_sum", labels, histogram.total)


@lru_cache
def _texts_of(bounds: tuple[float, ...]) -> tuple[str, ...]:
    return tuple(map(floatToGoString, (*bounds, float("inf"))))


def _facts(config: ProducerConfig) -> tuple[tuple[str, str], ...]:
    facts = (
        __version__,
        "all" if config.acks == -1 else str(config.acks),
        config.compression_type,
        str(config.enable_idempotence).lower(),
        str(config.transactional_id is not None).lower(),
    )
    return tuple(zip(_OF_INFO, facts, strict=True))


def _checked_label(name: str) -> str:
    if not _CONSTANT_LABEL.fullmatch(name):
        raise ValueError(f"not the name of a label: {name!r}")
    if name in _OUR_LABELS:
        raise ValueError(f"the label {name!r} is one of aioproducer's own")
    return name


def _checked_value(value: object) -> str:
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        # A page with it could not be written, and has the metrics of the whole program.
        raise ValueError(f"the value of a label cannot be written in UTF-8: {text!r}") from None
    return text

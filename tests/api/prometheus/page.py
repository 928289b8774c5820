"""A scraped page, as the parsers of `prometheus_client` read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.openmetrics import exposition, parser
from prometheus_client.parser import text_string_to_metric_families

from aioproducer.prometheus import ProducerCollector

Labels = frozenset[tuple[str, str]]
Key = tuple[str, Labels]

CUMULATIVE = ("_total", "_bucket", "_count", "_sum")


@attrs.frozen
class Page:
    """The samples of a page, by their names and labels."""

    text: str
    samples: dict[Key, float]
    kinds: dict[str, str]
    """The kind of each family of the OpenMetrics format."""

    def value(self, name: str, **labels: str) -> float:
        """The only sample of this name that has these labels, among others."""
        (value,) = self.values(name, **labels)
        return value

    def values(self, name: str, **labels: str) -> list[float]:
        """The samples of this name that have these labels, among others."""
        wanted = labels.items()
        return [value for (found, own), value in self.samples.items() if found == name and wanted <= own]

    def names(self) -> set[str]:
        """The names of all samples."""
        return {name for name, _ in self.samples}

    def labels(self, name: str) -> set[str]:
        """The names of the labels of a sample."""
        return {label for found, own in self.samples if found == name for label, _ in own}

    def counters(self) -> dict[Key, float]:
        """The samples that may not go back."""
        return {key: value for key, value in self.samples.items() if key[0].endswith(CUMULATIVE)}


# Two functions that have no types.
_open_metrics: Callable[[CollectorRegistry], bytes] = exposition.generate_latest
_open_families: Callable[[str], Iterable[Metric]] = parser.text_string_to_metric_families


class _Frozen(CollectorRegistry):
    """The families of one collection, for both formats."""

    def __init__(self, families: Iterable[Metric]) -> None:
        super().__init__()
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def scraped(registry: CollectorRegistry) -> Page:
    """Scrape once; both formats can be parsed, and have the same samples."""
    frozen = _Frozen(registry.collect())
    text = generate_latest(frozen).decode()
    families = list(_open_families(_open_metrics(frozen).decode()))
    samples = _samples(families)
    assert _samples(text_string_to_metric_families(text)) == samples
    return Page(text, samples, {family.name: family.type for family in families})


def collected(collector: ProducerCollector) -> Page:
    """The samples without a page between, which takes most of the time of a scrape."""
    return Page("", _samples(collector.collect()), {})


def went_back(before: dict[Key, float], after: Page) -> list[Key]:
    """The counters that are less than before, or that are not shown any more."""
    return [key for key, value in before.items() if after.samples.get(key, -1) < value]


def _samples(families: Iterable[Metric]) -> dict[Key, float]:
    samples: dict[Key, float] = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in samples, key
            samples[key] = sample.value
    return samples

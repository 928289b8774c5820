"""Metrics of queries for Prometheus, in the program that runs them: a collector that reads `Progress` when it is scraped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from aioproducer.spark.progress import Progress

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "prometheus_client":
        raise
    raise ModuleNotFoundError(
        "aioproducer.spark.prometheus requires the extra prometheus: pip install 'aioproducer[prometheus]'",
        name=error.name,
    ) from None

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

__all__ = ["ProgressCollector"]

COUNTERS: Final[Mapping[str, str]] = {
    "records_acked": "Rows that were written.",
    "accepted_bytes": "Bytes of their keys and values before compression.",
    "batches": "Attempts to write a batch.",
    "records_retried": "Records that were sent again, once for each repetition.",
    "dead_letters": "Rows that were set aside.",
    "records_skipped": "Rows that an earlier attempt had written.",
    "aborted_attempts": "Attempts of tasks that failed, and transactions that were repeated without refused rows.",
    "fence_seconds": "Seconds that the slowest task of each epoch took to fence earlier attempts and to read its mark.",
    "send_seconds": "Seconds that the slowest task of each epoch took to write its rows.",
    "commit_seconds": "Seconds that the slowest task of each epoch took to commit.",
}
UNITS: Final = ("seconds", "bytes")


class ProgressCollector(Collector):
    """A collector for the registry of `prometheus_client`, with the label `query`.

    `queries`: the progress of each query by its name. With `registry`, the collector registers itself.
    """

    def __init__(
        self,
        queries: Mapping[str, Progress],
        *,
        namespace: str = "aioproducer_spark",
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._queries = dict(queries)
        self._namespace = namespace
        if registry is not None:
            registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """The names and kinds of all metrics."""
        return self._families().values()

    def collect(self) -> Iterable[Metric]:
        """All metrics of the present moment."""
        families = self._families()
        for name, progress in self._queries.items():
            for each, value in progress.totals().items():
                families[each].add_metric([name], value)
            families["epochs"].add_metric([name, "written"], progress.epochs)
            families["epochs"].add_metric([name, "failed"], progress.failed_epochs)
            last = progress.last
            if last is not None:
                families["last_epoch"].add_metric([name], last.epoch)
                families["longest_delivery_seconds"].add_metric([name], last.longest_delivery_seconds)
        return families.values()

    def _families(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            name: CounterMetricFamily(f"{self._namespace}_{name}", text, labels=["query"], unit=_unit(name))
            for name, text in COUNTERS.items()
        }
        found["epochs"] = CounterMetricFamily(
            f"{self._namespace}_epochs",
            "Epochs by their outcome: written or failed.",
            labels=["query", "outcome"],
        )
        found["last_epoch"] = GaugeMetricFamily(
            f"{self._namespace}_last_epoch",
            "The number of the last epoch that was written.",
            labels=["query"],
        )
        found["longest_delivery_seconds"] = GaugeMetricFamily(
            f"{self._namespace}_longest_delivery_seconds",
            "The longest time from the opening of a batch to its outcome in the last epoch.",
            labels=["query"],
            unit="seconds",
        )
        return found


def _unit(name: str) -> str:
    unit = name.rpartition("_")[2]
    return unit if unit in UNITS else ""

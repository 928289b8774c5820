"""The numbers of one producer at one moment, by metric and labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import attrs

from aioproducer._metrics.table import METRICS, Kind, Merge, Metric
from aioproducer.stats import Histogram

if TYPE_CHECKING:
    from aioproducer._metrics.topic_names import TopicNames
    from aioproducer.stats import Health, Stats

__all__ = ["Counts", "Key", "gauges_of", "merge", "merged"]

Key = tuple[str, tuple[str, ...]]
"""The name of a metric, and the values of its labels."""

_GAUGES = {metric.name: metric for metric in METRICS if metric.kind is Kind.GAUGE}
_UP = frozenset({"connected", "throttled"})


@attrs.define(eq=False)
class Counts:
    """Counters and histograms. They never go back."""

    counters: dict[Key, float] = attrs.Factory(dict)
    histograms: dict[Key, Histogram] = attrs.Factory(dict)

    def update(self, stats: Stats, topics: TopicNames) -> None:
        """Take the newer numbers. What the producer has dropped stays, such as the numbers of a former broker.

        The statistics may be older than the last ones: a finalizer runs in any thread.
        """
        for key, value in _totals(_counters(stats, topics)).items():
            self.counters[key] = max(value, self.counters.get(key, 0))
        for key, histogram in _histograms(stats):
            known = self.histograms.get(key)
            if known is None or histogram.count >= known.count:
                self.histograms[key] = histogram

    def add(self, other: Counts) -> None:
        """Add the numbers of another producer."""
        for key, value in other.counters.items():
            self.counters[key] = self.counters.get(key, 0) + value
        for key, histogram in other.histograms.items():
            known = self.histograms.get(key)
            self.histograms[key] = histogram if known is None else _sum(known, histogram)


def _sum(one: Histogram, other: Histogram) -> Histogram:
    counts = tuple(a + b for a, b in zip(one.counts, other.counts, strict=True))
    return Histogram(one.bounds, counts, one.total + other.total)


def _totals(numbers: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    """Several topics may have one name."""
    totals: dict[Key, float] = {}
    for key, value in numbers:
        totals[key] = totals.get(key, 0) + value
    return totals


def _counters(stats: Stats, topics: TopicNames) -> Iterator[tuple[Key, float]]:
    for name, value in (
        ("records_accepted", stats.records_accepted),
        ("accepted_bytes", stats.bytes_accepted),
        ("batches_split", stats.batches_split),
        ("suspected_data_losses", stats.suspected_data_losses),
        ("memory_waits", stats.memory_waits),
        ("memory_wait_seconds", stats.memory_wait_seconds),
        ("metadata_waits", stats.metadata_waits),
        ("metadata_wait_seconds", stats.metadata_wait_seconds),
        ("loop_stalls", stats.loop_stalls),
        ("loop_stall_seconds", stats.loop_stall_seconds),
    ):
        yield (name, ()), value
    yield from _by_topic(stats, topics)
    for connection in stats.connections:
        broker = (connection.broker,)
        yield ("requests", broker), connection.requests
        yield ("request_errors", broker), connection.request_errors
        yield ("sent_bytes", broker), connection.bytes_sent
        yield ("received_bytes", broker), connection.bytes_received
        yield ("throttle_seconds", broker), connection.throttle_seconds
        yield ("connects", broker), connection.connects
        yield ("connect_failures", broker), connection.failures
    transactions = stats.transactions
    yield ("transactions", ("committed",)), transactions.committed
    yield ("transactions", ("aborted",)), transactions.aborted
    yield ("transactions", ("unknown",)), transactions.unknown


def _by_topic(stats: Stats, topics: TopicNames) -> Iterator[tuple[Key, float]]:
    for topic, counts in stats.topics.items():
        name = (topics[topic],)
        yield ("records_acked", name), counts.records_acked
        yield ("acked_bytes", name), counts.bytes_acked
        yield ("records_retried", name), counts.records_retried
        yield ("batches", name), counts.batches
    for failure in stats.failures:
        labels = (topics[failure.topic], failure.error, failure.outcome.name.lower())
        yield ("records_failed", labels), failure.records
    for topic, records in stats.dead_letters.items():
        yield ("dead_letters", (topics[topic],)), records


def _histograms(stats: Stats) -> Iterator[tuple[Key, Histogram]]:
    yield ("queue_time_seconds", ()), stats.queue_time
    yield ("delivery_time_seconds", ()), stats.delivery_time
    yield ("batch_size_bytes", ()), stats.batch_size
    yield ("batch_records", ()), stats.batch_records
    yield ("compression_ratio", ()), stats.compression_ratio
    yield ("transaction_commit_seconds", ()), stats.transactions.commit_time
    for connection in stats.connections:
        yield ("request_time_seconds", (connection.broker,)), connection.request_time


def gauges_of(stats: Stats, health: Health) -> dict[Key, float]:
    """The gauges; those that are not known are left out."""
    simple: tuple[tuple[str, float | None], ...] = (
        ("buffered_records", stats.records_buffered),
        ("buffered_bytes", stats.bytes_buffered),
        ("buffer_memory_bytes", stats.buffer_memory),
        ("in_flight_records", stats.records_in_flight),
        ("in_flight_bytes", stats.bytes_in_flight),
        ("waiting_calls", stats.waiting_calls),
        ("oldest_unacked_seconds", stats.oldest_unacked_seconds),
        ("seconds_since_last_ack", health.seconds_since_last_ack),
        ("metadata_age_seconds", stats.metadata_age_seconds),
        ("ready", int(health.ready)),
        ("live", int(health.live)),
    )
    gauges: dict[Key, float] = {(name, ()): value for name, value in simple if value is not None}
    for connection in stats.connections:
        gauges["requests_in_flight", (connection.broker,)] = connection.requests_in_flight
        if connection.address is not None:
            place = (connection.broker, connection.address)
            gauges["connection_up", place] = int(connection.state in _UP)
    return gauges


def merged(several: Iterable[dict[Key, float]]) -> dict[Key, float]:
    """The gauges of several producers as those of one."""
    found: dict[Key, float] = {}
    for gauges in several:
        for key, value in gauges.items():
            known = found.get(key)
            found[key] = value if known is None else merge(_GAUGES[key[0]], known, value)
    return found


def merge(metric: Metric, one: float, other: float) -> float:
    """One value of two producers."""
    match metric.merge:
        case Merge.SUM:
            return one + other
        case Merge.MOST:
            return max(one, other)
        case Merge.LEAST:
            return min(one, other)

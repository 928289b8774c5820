"""Snapshots of a producer: what it has done, what it holds, how it is.

All of them are frozen facts, taken without I/O; times are in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

__all__ = [
    "BYTES_BOUNDS",
    "RATIO_BOUNDS",
    "SECONDS_BOUNDS",
    "ConnectionStats",
    "Health",
    "Histogram",
    "Stats",
]


@attrs.frozen
class Health:
    """The producer's condition, for probes; durations in seconds, None where there is nothing to measure.

    `connected_brokers` counts the brokers with an open connection of any kind. Idle connections are closed, so
    zero is not a fault: `answered_seconds_ago` is the time since the last answer of the cluster, and None
    before the first. `last_error` is the last fault, and stays when the fault is over: it is over after a later answer
    (`answered_seconds_ago` below `last_error_seconds_ago`).
    """

    state: str
    connected_brokers: int = 0
    seconds_since_last_ack: float | None = None
    oldest_unacked_seconds: float | None = None
    last_error: BaseException | None = None
    answered_seconds_ago: float | None = None
    last_error_seconds_ago: float | None = None


@attrs.frozen
class Histogram:
    """Counts of values in fixed buckets.

    `counts[i]` is how many values were at most `bounds[i]` and above the bound before; the last count, one more
    than there are bounds, is for those above all.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float = 0.0

    @classmethod
    def empty(cls, bounds: tuple[float, ...]) -> Histogram:
        """A histogram over these buckets that has seen nothing."""
        return cls(bounds, (0,) * (len(bounds) + 1))

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        """The mean of all values, None if there were none."""
        return self.total / self.count if self.count else None

    def quantile(self, fraction: float) -> float | None:
        """The upper bound of the bucket that holds this quantile (infinity for the last); None if empty."""
        if not self.count:
            return None
        wanted = fraction * self.count
        seen = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            seen += count
            if seen >= wanted and seen:
                return bound
        return float("inf")


@attrs.frozen
class ConnectionStats:
    """One broker connection: `state` in a word, and what is on its way."""

    broker: str
    state: str
    requests_in_flight: int = 0
    bytes_in_flight: int = 0
    connects: int = 0
    failures: int = 0


SECONDS_BOUNDS = tuple(
    milliseconds / 1000
    for milliseconds in (
        1,
        2,
        5,
        10,
        20,
        50,
        100,
        200,
        500,
        1_000,
        2_000,
        5_000,
        10_000,
        30_000,
        60_000,
        120_000,
    )
)
BYTES_BOUNDS = tuple(float(1 << power) for power in range(7, 25))
RATIO_BOUNDS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def _empty_seconds() -> Histogram:
    return Histogram.empty(SECONDS_BOUNDS)


def _empty_bytes() -> Histogram:
    return Histogram.empty(BYTES_BOUNDS)


def _empty_ratios() -> Histogram:
    return Histogram.empty(RATIO_BOUNDS)


@attrs.frozen(kw_only=True)
class Stats:
    """One snapshot of what the producer has done and holds. Counters only grow while the producer lives.

    Times are in seconds; `compression_ratio` is compressed size over uncompressed.
    """

    records_accepted: int = 0
    bytes_accepted: int = 0
    records_acked: int = 0
    bytes_acked: int = 0
    records_failed: int = 0
    records_retried: int = 0
    failed_by_error: Mapping[str, int] = attrs.Factory(dict)
    losses_by_topic: Mapping[str, int] = attrs.Factory(dict)
    suspected_data_losses: int = 0
    batches: int = 0
    requests: int = 0

    records_buffered: int = 0
    bytes_buffered: int = 0
    records_in_flight: int = 0
    bytes_in_flight: int = 0
    waiting_calls: int = 0
    oldest_unacked_seconds: float | None = None

    queue_time: Histogram = attrs.Factory(_empty_seconds)
    request_time: Histogram = attrs.Factory(_empty_seconds)
    batch_size: Histogram = attrs.Factory(_empty_bytes)
    compression_ratio: Histogram = attrs.Factory(_empty_ratios)

    connections: tuple[ConnectionStats, ...] = ()

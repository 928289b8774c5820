"""Snapshots of a producer: counters, buffered records, condition.

All of them are frozen facts, taken without I/O; times are in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs

from aioproducer.errors import text_of
from aioproducer.outcome import Outcome

__all__ = ["ConnectionStats", "Failure", "Health", "Histogram", "Stats", "TopicStats", "TransactionStats"]


@attrs.frozen
class Health:
    """The producer's condition, for probes; durations in seconds, None where there is nothing to measure.

    `live` is False only in the state "failed": a restart does not bring a cluster back that is down. `ready`: the producer
    runs, it has read metadata, at least one known broker can be reached, no other producer has taken over the transactional
    id, and no record has waited for longer than `request_timeout_ms`. `problems` has at most ten lines, the worst first.

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
    live: bool = True
    ready: bool = False
    problems: tuple[str, ...] = ()
    brokers_known: int = 0
    brokers_unreachable: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The same facts as plain JSON types; `last_error` is its text."""
        facts = {field.name: getattr(self, field.name) for field in attrs.fields(Health)}
        error = self.last_error
        facts["last_error"] = None if error is None else text_of(error) or type(error).__name__
        facts["problems"] = list(self.problems)
        return facts


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


# The name of all topics that have no counters, or no place on a page, of their own.
OTHER_TOPICS = "_other"
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
RECORDS_BOUNDS = tuple(
    float(number)
    for number in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
)
RATIO_BOUNDS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def _empty_seconds() -> Histogram:
    return Histogram.empty(SECONDS_BOUNDS)


def _empty_bytes() -> Histogram:
    return Histogram.empty(BYTES_BOUNDS)


def _empty_ratios() -> Histogram:
    return Histogram.empty(RATIO_BOUNDS)


def _empty_records() -> Histogram:
    return Histogram.empty(RECORDS_BOUNDS)


class TopicStats(NamedTuple):
    """The counters of one topic; `batches` counts each attempt to write a batch."""

    records_acked: int = 0
    bytes_acked: int = 0
    records_failed: int = 0
    records_retried: int = 0
    batches: int = 0


class Failure(NamedTuple):
    """The number of records of a topic that failed with this error and this outcome; `error` as in `Stats.failed_by_error`."""

    topic: str
    error: str
    outcome: Outcome
    records: int


@attrs.frozen
class TransactionStats:
    """How transactions ended; `commit_time` is the time from the call of a commit to its success.

    `unknown` counts transactions with a `CommitOutcomeUnknownError`. A later call may settle one of them; it is then counted
    as `committed` as well.
    """

    committed: int = 0
    aborted: int = 0
    unknown: int = 0
    commit_time: Histogram = attrs.Factory(_empty_seconds)


@attrs.frozen
class ConnectionStats:
    """The connections to one broker, one at a time: the state of the newest, and counters of all of them.

    `broker` is the id of the broker as text, or "metadata" for the connection that metadata is asked on. `address` is
    "host:port", None before the first attempt. `state` is "idle", "connecting", "connected", "throttled", "disconnected" or
    "unreachable". `request_errors` counts requests that got no usable answer, `throttle_seconds` the pauses that the broker
    asked for. `last_error` is kept when the fault is over.

    `authentications` counts the connections that were authenticated, `reauthentications` the sessions that were renewed on
    them, `authentication_failures` the attempts of both kinds that failed. `session_ends_in` is the time in seconds until the
    session of the present connection ends, None without such an end.
    """

    broker: str
    state: str
    requests_in_flight: int = 0
    bytes_in_flight: int = 0
    connects: int = 0
    failures: int = 0
    address: str | None = None
    requests: int = 0
    request_errors: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    throttle_seconds: float = 0.0
    request_time: Histogram = attrs.Factory(_empty_seconds)
    last_error: str | None = None
    seconds_in_state: float = 0.0
    authentications: int = 0
    reauthentications: int = 0
    authentication_failures: int = 0
    session_ends_in: float | None = None


@attrs.frozen(kw_only=True)
class Stats:
    """One snapshot of the producer's counters and state. Counters only grow while the producer lives.

    Times are in seconds. `compression_ratio` is compressed size over uncompressed, `delivery_time` the time from the opening
    of a batch to its outcome, `batch_records` the records in a batch with an outcome.

    `topics` and `failures` name at most 1,000 topics; all others are summed under the name "_other". `memory_waits` and
    `metadata_waits` count calls that had to wait, when their wait is over. `loop_stalls` counts turns of the event loop of
    100 ms or more, as far as they delayed the producer while it had work. `dead_letters` counts by the topic that a record
    was meant for; what Kafka does not allow as a name is counted as "_other".
    """

    records_accepted: int = 0
    bytes_accepted: int = 0
    records_acked: int = 0
    bytes_acked: int = 0
    records_failed: int = 0
    records_not_written: int = 0
    records_unknown: int = 0
    records_retried: int = 0
    failed_by_error: Mapping[str, int] = attrs.Factory(dict)
    losses_by_topic: Mapping[str, int] = attrs.Factory(dict)
    topics: Mapping[str, TopicStats] = attrs.Factory(dict)
    failures: tuple[Failure, ...] = ()
    dead_letters: Mapping[str, int] = attrs.Factory(dict)
    suspected_data_losses: int = 0
    batches: int = 0
    batches_split: int = 0
    requests: int = 0

    records_buffered: int = 0
    bytes_buffered: int = 0
    records_in_flight: int = 0
    bytes_in_flight: int = 0
    waiting_calls: int = 0
    oldest_unacked_seconds: float | None = None
    buffer_memory: int = 0
    metadata_age_seconds: float | None = None

    memory_waits: int = 0
    memory_wait_seconds: float = 0.0
    metadata_waits: int = 0
    metadata_wait_seconds: float = 0.0
    loop_stalls: int = 0
    loop_stall_seconds: float = 0.0
    longest_loop_stall: float = 0.0

    queue_time: Histogram = attrs.Factory(_empty_seconds)
    request_time: Histogram = attrs.Factory(_empty_seconds)
    delivery_time: Histogram = attrs.Factory(_empty_seconds)
    batch_size: Histogram = attrs.Factory(_empty_bytes)
    batch_records: Histogram = attrs.Factory(_empty_records)
    compression_ratio: Histogram = attrs.Factory(_empty_ratios)

    transactions: TransactionStats = attrs.Factory(TransactionStats)
    connections: tuple[ConnectionStats, ...] = ()

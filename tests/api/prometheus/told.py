"""Producers that return given statistics."""

from __future__ import annotations

from typing import Any

from aioproducer import ConnectionStats, Failure, Health, Histogram, Outcome, Producer, Stats, TopicStats
from aioproducer.stats import (
    BYTES_BOUNDS,
    RATIO_BOUNDS,
    RECORDS_BOUNDS,
    SECONDS_BOUNDS,
    TransactionStats,
)


class Told(Producer[Any, Any]):
    """A producer whose `stats()` and `health()` are attributes; it counts how often it is asked."""

    def __init__(
        self,
        stats: Stats | None = None,
        health: Health | None = None,
        client_id: str = "shop",
        **settings: Any,
    ) -> None:
        super().__init__("localhost:9092", client_id=client_id, **settings)
        self.told_stats = stats or Stats()
        self.told_health = health or Health("running", ready=True)
        self.asked = 0

    def stats(self) -> Stats:
        """The given ones."""
        self.asked += 1
        return self.told_stats

    def health(self) -> Health:
        """The given one."""
        return self.told_health


def histogram(bounds: tuple[float, ...], first: int, last: int, total: float) -> Histogram:
    """Values in the first bucket and above all bounds."""
    return Histogram(bounds, (first, *(0,) * (len(bounds) - 1), last), total)


def connection(broker: str, state: str = "connected", **numbers: Any) -> ConnectionStats:
    """A connection to 10.0.0.<broker>:9092."""
    return ConnectionStats(broker, state, address=f"10.0.0.{broker}:9092", **numbers)


def acked(**topics: int) -> dict[str, TopicStats]:
    """So many written records of each topic."""
    return {name: TopicStats(records_acked=count) for name, count in topics.items()}


FULL = Stats(
    records_accepted=1,
    bytes_accepted=2,
    records_acked=15,
    topics={"orders": TopicStats(3, 4, 9, 5, 6), "carts": TopicStats(12, 13, 0, 14, 15)},
    failures=(
        Failure("orders", "NOT_ENOUGH_REPLICAS", Outcome.NOT_WRITTEN, 7),
        Failure("orders", "REQUEST_TIMED_OUT", Outcome.UNKNOWN, 2),
    ),
    dead_letters={"orders": 16},
    batches_split=17,
    suspected_data_losses=18,
    memory_waits=19,
    memory_wait_seconds=20.5,
    metadata_waits=21,
    metadata_wait_seconds=22.5,
    loop_stalls=23,
    loop_stall_seconds=24.5,
    connections=(
        connection(
            "1",
            requests=25,
            request_errors=26,
            bytes_sent=27,
            bytes_received=28,
            throttle_seconds=29.5,
            connects=30,
            failures=31,
            requests_in_flight=32,
            request_time=histogram(SECONDS_BOUNDS, 1, 2, 33.5),
        ),
        connection("2", "throttled"),
        connection("3", "unreachable"),
        ConnectionStats("metadata", "idle"),
    ),
    transactions=TransactionStats(34, 35, 36, histogram(SECONDS_BOUNDS, 3, 4, 37.5)),
    records_buffered=38,
    bytes_buffered=39,
    buffer_memory=40,
    records_in_flight=41,
    bytes_in_flight=42,
    waiting_calls=43,
    oldest_unacked_seconds=44.5,
    metadata_age_seconds=46.5,
    queue_time=histogram(SECONDS_BOUNDS, 5, 6, 47.5),
    delivery_time=histogram(SECONDS_BOUNDS, 7, 8, 48.5),
    batch_size=histogram(BYTES_BOUNDS, 9, 10, 49.5),
    batch_records=histogram(RECORDS_BOUNDS, 11, 12, 50.5),
    compression_ratio=histogram(RATIO_BOUNDS, 13, 14, 51.5),
)
"""Statistics in which each number stands for one field."""

WELL = Health("running", ready=True, seconds_since_last_ack=45.5)

"""Micro-batches, small and large: the time of an epoch with each sink."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from math import ceil
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import attrs

from benchmarks.spark.batches import CONNECTOR, DROPPED, ENTRANTS, EXACTLY, NOTHING, OURS
from benchmarks.spark.contest import PARTITIONS, TaskTime, told_by_tasks
from benchmarks.spark.session import columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tools.kafka_cluster import KafkaCluster

LIMIT: Final = 300.0


@attrs.frozen
class Kind:
    """Epochs of one size."""

    rows: int
    # The number in each run; those of the warm-up come before.
    epochs: int
    warm_up: int
    sinks: tuple[str, ...]

    def scaled(self, scale: float) -> Kind:
        """The same with fewer epochs, and fewer rows in large ones."""
        rows = max(SMALL_ROWS, int(self.rows * scale)) if self.rows > SMALL_ROWS else self.rows
        return attrs.evolve(
            self, rows=rows, epochs=ceil(self.epochs * scale), warm_up=ceil(self.warm_up * scale)
        )


SMALL_ROWS: Final = 100
SMALL: Final = Kind(SMALL_ROWS, 40, 10, (NOTHING, DROPPED, CONNECTOR, OURS, EXACTLY))
LARGE: Final = Kind(1_000_000, 5, 2, (OURS, EXACTLY))


@attrs.define
class Epochs:
    """The epochs of one sink, all rounds together."""

    rows: int
    seconds: list[float] = attrs.field(factory=list)
    tasks: list[TaskTime] = attrs.field(factory=list)

    @property
    def median_ms(self) -> float:
        """The median time of an epoch, as Spark reports it."""
        return median(self.seconds) * 1000

    @property
    def rate(self) -> float:
        """Rows a second, of the median epoch."""
        return self.rows / median(self.seconds)


def measure_epochs(
    spark: SparkSession, kafka: KafkaCluster, kind: Kind, rounds: int, say: Callable[[str], None]
) -> dict[str, Epochs]:
    """Each sink once a round, as a query of its own."""
    found = {name: Epochs(kind.rows) for name in kind.sinks}
    for number in range(rounds):
        first = number % len(kind.sinks)
        for name in kind.sinks[first:] + kind.sinks[:first]:
            seconds, tasks = _run(spark, kafka, name, kind)
            found[name].seconds += seconds
            found[name].tasks += tasks
            say(f"epochs of {kind.rows:,} rows, round {number + 1}, {name}: {median(seconds) * 1000:.0f} ms")
    return found


def _run(
    spark: SparkSession, kafka: KafkaCluster, name: str, kind: Kind
) -> tuple[list[float], list[TaskTime]]:
    topic = kafka.create_topic(f"epochs-{time.monotonic_ns()}", PARTITIONS)
    entrant = ENTRANTS[name]
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", kind.rows)
    df = source.option("numPartitions", 2).load().selectExpr(*columns("value"))
    told_by_tasks()
    with tempfile.TemporaryDirectory() as checkpoint:
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic, **entrant.options}
        writing = df.writeStream.format(entrant.format).options(**options)
        query = writing.option("checkpointLocation", checkpoint).start()
        try:
            warm = _after(query, kind.warm_up)
            told_by_tasks()
            progress = _after(query, warm + kind.epochs)
        finally:
            query.stop()
        found = [one.durationMs["triggerExecution"] / 1000 for one in query.recentProgress[warm:progress]]
    tasks = told_by_tasks()
    kafka.delete_topic(topic)
    return found, tasks


def _after(query: Any, epochs: int) -> int:
    """Wait until so many epochs have ended; how many have."""
    deadline = time.monotonic() + LIMIT
    while len(query.recentProgress) < epochs:
        if query.exception() is not None:
            raise query.exception()
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {epochs} epochs within {LIMIT:g} s")
        time.sleep(0.2)
    return len(query.recentProgress)

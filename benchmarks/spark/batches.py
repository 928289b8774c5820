"""One DataFrame in memory, written by each sink in turn: rows a second, best of the warm rounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs

from benchmarks.spark.contest import PARTITIONS, TUNED, TaskTime, told_by_tasks
from benchmarks.spark.session import rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tools.kafka_cluster import KafkaCluster

ROWS: Final = 5_000_000
OURS: Final = "aioproducer, at least once"
EXACTLY: Final = "aioproducer, exactly once"
CONNECTOR: Final = "Spark's own connector"
CONFLUENT: Final = "confluent-kafka in an Arrow writer"
AIOKAFKA: Final = "aiokafka's batches in an Arrow writer"
NOTHING: Final = "noop"
DROPPED: Final = "a writer in Python that drops its rows"


@attrs.frozen
class Entrant:
    """A sink: its name in Spark, and its options besides server and topic."""

    format: str
    options: dict[str, str] = attrs.field(factory=dict)
    # Transactions leave markers behind the records.
    is_transactional: bool = False
    # The others show what Spark itself takes.
    writes: bool = True


_KAFKAS: Final = {f"kafka.{name}": value for name, value in TUNED.items()}
ENTRANTS: Final = {
    OURS: Entrant("watched-aioproducer", _KAFKAS),
    EXACTLY: Entrant("watched-aioproducer", {**_KAFKAS, "delivery": "exactly-once"}, is_transactional=True),
    CONNECTOR: Entrant("kafka", _KAFKAS),
    CONFLUENT: Entrant("confluent"),
    AIOKAFKA: Entrant("aiokafka"),
    NOTHING: Entrant("noop", writes=False),
    DROPPED: Entrant("dropping", writes=False),
}


@attrs.frozen
class Write:
    """One write of all rows."""

    rows: int
    seconds: float
    tasks: list[TaskTime]

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds


Writes = dict[str, list[Write]]


def measure_batches(
    spark: SparkSession, kafka: KafkaCluster, count: int, rounds: int, say: Callable[[str], None]
) -> Writes:
    """Each sink once a round; the first round warms up and is not counted."""
    df = rows(spark, count)
    writes: Writes = {name: [] for name in ENTRANTS}
    names = list(ENTRANTS)
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            done = _write(df, kafka, ENTRANTS[name], count)
            say(f"batch, round {number}, {name}: {done.rate:,.0f} rows/s")
            if number:
                writes[name].append(done)
    df.unpersist()
    return writes


def _write(df: DataFrame, kafka: KafkaCluster, entrant: Entrant, count: int) -> Write:
    topic = kafka.create_topic(f"batch-{time.monotonic_ns()}", PARTITIONS)
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic, **entrant.options}
    began = time.perf_counter()
    df.write.format(entrant.format).options(**options).mode("append").save()
    seconds = time.perf_counter() - began
    tasks = told_by_tasks()
    if entrant.writes:
        markers = PARTITIONS if entrant.is_transactional else 0
        check_count(kafka, topic, count, markers * PARTITIONS)
    kafka.delete_topic(topic)
    return Write(count, seconds, tasks)


def check_count(kafka: KafkaCluster, topic: str, count: int, markers: int) -> None:
    """All rows are there, and no other: offsets are those of the broker."""
    found = kafka.end_offsets(topic)
    if not count <= sum(found) <= count + markers:
        raise RuntimeError(f"{count} rows were written to {topic}, and it has {sum(found)} offsets")

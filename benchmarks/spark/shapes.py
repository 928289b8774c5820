"""Rows of production in a batch: sizes, keys, partitions and compression, on three nodes, beside the connector and confluent-kafka.

    python -m benchmarks.spark.shapes

Prints a table of rates and of processor time: that of Spark's JVM and its Python workers together.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, Final

import attrs

from benchmarks.report import machine
from benchmarks.spark.batches import CONFLUENT, CONNECTOR, ENTRANTS, EXACTLY, OURS, Entrant, check_count
from benchmarks.spark.processes import cpu_of_spark
from benchmarks.spark.session import session
from tools.kafka_cluster import KafkaCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NODES: Final = 3
TASKS: Final = 4
SIZES: Final = (100, 1_000)
PARTITIONS: Final = (4, 120, 1_000)
CODECS: Final = ("none", "zstd")
NAMES: Final = (OURS, EXACTLY, CONNECTOR, CONFLUENT)
# Text that compresses to about a third, as JSON of orders does.
VALUE: Final = "substr(concat(id, repeat(concat('{{\"sku\":\"', hex(hash(id)), '\",\"n\":', id % 97, '}},'), 60)), 1, {size})"


@attrs.frozen
class Shape:
    """The rows of one contest, and the topic."""

    size: int
    keyed: bool
    partitions: int
    codec: str

    def __str__(self) -> str:
        return f"{self.size:,} B | {'key' if self.keyed else 'none'} | {self.partitions:,} | {self.codec}"


@attrs.frozen
class Write:
    """One write of all rows."""

    rate: float
    cpu_micros: float


def shapes(counts: Sequence[int]) -> Iterator[Shape]:
    """Those with so many partitions; those of one DataFrame follow each other."""
    for size, keyed in itertools.product(SIZES, (True, False)):
        for partitions, codec in itertools.product(counts, CODECS):
            yield Shape(size, keyed, partitions, codec)


def main() -> None:
    """Measure all shapes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.shapes", description=__doc__)
    parser.add_argument(
        "--bytes", type=int, default=100_000_000, help="of values in one write (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="warm rounds (default: %(default)s)")
    parser.add_argument("--partitions", type=int, nargs="+", default=PARTITIONS, help="of the topics")
    asked = parser.parse_args()
    print(f"{machine()}; load average {os.getloadavg()[0]:.1f}", flush=True)
    for line in heads_of(NAMES, ["value", "key", "partitions", "compression"]):
        print(line, flush=True)
    with KafkaCluster(NODES) as kafka, session() as spark:
        _warm_up(spark, kafka)
        wanted = shapes(asked.partitions)
        for (size, keyed), group in itertools.groupby(wanted, lambda shape: (shape.size, shape.keyed)):
            count = asked.bytes // size
            df = _rows(spark, size, count, keyed=keyed)
            for shape in group:
                print(row_of(shape, _contest(df, kafka, shape, count, asked.rounds), NAMES), flush=True)
            df.unpersist()


def heads_of(names: Sequence[str], what: Sequence[str]) -> list[str]:
    """The two lines at the top of a table of these sinks."""
    figures = [f"{name}, rows/s" for name in names] + [f"{name}, CPU us/row" for name in names]
    columns = [*what, *figures, *(f"rate, x {name}" for name in names[2:]), "CPU, x connector"]
    return [f"| {' | '.join(columns)} |", f"|{'---|' * len(what)}{'---:|' * (len(columns) - len(what))}"]


def row_of(what: object, found: dict[str, list[Write]], names: Sequence[str]) -> str:
    """A row of the table of rates and processor time, and this sink beside the others."""
    rates = {name: median(write.rate for write in found[name]) for name in names}
    cpu = {name: median(write.cpu_micros for write in found[name]) for name in names}
    cells = [f"{rates[name]:,.0f}" for name in names] + [f"{cpu[name]:.2f}" for name in names]
    cells += [f"{rates[OURS] / rates[name]:.2f}" for name in names[2:]]
    return f"| {what} | {' | '.join(cells)} | {cpu[OURS] / cpu[CONNECTOR]:.2f} |"


def _contest(
    df: DataFrame, kafka: KafkaCluster, shape: Shape, count: int, rounds: int
) -> dict[str, list[Write]]:
    found: dict[str, list[Write]] = defaultdict(list)
    topic = kafka.create_topic(f"shape-{time.monotonic_ns()}", shape.partitions, replication_factor=1)
    # Brokers need seconds until they lead a thousand new partitions: the first writer would wait for them. The connector would
    # also stand still for two minutes and fail then, as its client sends a first batch that was written again, behind others.
    _write_of(df, kafka, shape, ENTRANTS[OURS], topic, count)
    offsets = sum(kafka.end_offsets(topic))
    for number in range(rounds):
        first = number % len(NAMES)
        for name in NAMES[first:] + NAMES[:first]:
            found[name].append(_write_of(df, kafka, shape, ENTRANTS[name], topic, count))
            markers = shape.partitions * TASKS if ENTRANTS[name].is_transactional else 0
            check_count(kafka, topic, offsets + count, markers)
            offsets = sum(kafka.end_offsets(topic))
    kafka.delete_topic(topic)
    return found


def _write_of(
    df: DataFrame, kafka: KafkaCluster, shape: Shape, entrant: Entrant, topic: str, count: int
) -> Write:
    options = {
        **entrant.options,
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "kafka.compression.type": shape.codec,
        "topic": topic,
    }
    return measured(df, kafka, entrant.format, options, count)


def measured(df: DataFrame, kafka: KafkaCluster, name: str, options: dict[str, str], count: int) -> Write:
    """Write all rows by the sink of this name."""
    used, began = cpu_of_spark(kafka), time.perf_counter()
    df.write.format(name).options(**options).mode("append").save()
    seconds, used = time.perf_counter() - began, cpu_of_spark(kafka) - used
    return Write(count / seconds, used / count * 1e6)


def _rows(spark: SparkSession, size: int, count: int, *, keyed: bool) -> DataFrame:
    columns = [f"cast({VALUE.format(size=size)} as binary) as value"]
    if keyed:
        columns.append("cast(lpad(cast(hash(id) as string), 16, '0') as binary) as key")
    df = spark.range(0, count, numPartitions=TASKS).selectExpr(*columns).cache()
    df.count()
    return df


def _warm_up(spark: SparkSession, kafka: KafkaCluster) -> None:
    """The compiler of the JVM and the imports of the workers are not measured."""
    shape = Shape(100, keyed=True, partitions=4, codec="none")
    df = _rows(spark, shape.size, 300_000, keyed=True)
    _contest(df, kafka, shape, 300_000, rounds=2)
    df.unpersist()


if __name__ == "__main__":
    main()

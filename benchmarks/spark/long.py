"""One batch of many rows: the rate of each tenth of it, and the memory of Spark's processes meanwhile.

    python -m benchmarks.spark.long                       100,000,000 rows, exactly once
    python -m benchmarks.spark.long --rows 10000000       the short form

Rows are made while they are written. Brokers delete most of them again during the run, so that the disk does not fill up.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import threading
import time
from statistics import median
from typing import TYPE_CHECKING, Final, Self

import attrs

from benchmarks.report import machine
from benchmarks.spark.batches import ENTRANTS, EXACTLY
from benchmarks.spark.contest import PARTITIONS, cpu_micros, told_by_tasks
from benchmarks.spark.processes import memory_of_spark
from benchmarks.spark.session import columns, session
from tools.kafka_cluster import KafkaCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS: Final = 10
# Tasks run two at a time, and each has one transaction.
TASKS: Final = 4
WARM_UP: Final = 500_000
SECONDS_BETWEEN_LOOKS: Final = 0.2
KEPT: Final = {"segment_bytes": 64_000_000, "retention_bytes": 256_000_000, "file_delete_delay_ms": 1_000}


@attrs.frozen
class Look:
    """The state at one moment."""

    seconds: float
    # That the brokers have.
    rows: int
    workers_mb: int
    java_mb: int


@attrs.define
class Watch:
    """`with Watch(kafka, topic) as watch: ...` looks at the topic and at the memory again and again."""

    kafka: KafkaCluster
    topic: str
    looks: list[Look] = attrs.field(factory=list)
    _over: threading.Event = attrs.field(factory=threading.Event)
    _began: float = attrs.field(factory=time.monotonic)
    _thread: threading.Thread = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_LOOKS):
            self._look()

    def _look(self) -> None:
        memory = memory_of_spark(self.kafka)
        rows = sum(self.kafka.end_offsets(self.topic))
        self.looks.append(Look(time.monotonic() - self._began, rows, memory["workers"], memory["java"]))


@attrs.frozen
class Part:
    """A tenth of the rows."""

    number: int
    rate: float
    workers_mb: int
    java_mb: int


def parts_of(looks: list[Look], count: int) -> list[Part]:
    """The tenths: the moment at which a number of rows is reached lies between two looks."""
    moments = [_reached(looks, count * number // PARTS) for number in range(PARTS + 1)]
    found = []
    for number, (first, last) in enumerate(itertools.pairwise(moments), 1):
        seen = [look for look in looks if first <= look.seconds <= last] or looks[-1:]
        rate = count / PARTS / max(last - first, 1e-9)
        workers, java = (
            int(median(values)) for values in zip(*((s.workers_mb, s.java_mb) for s in seen), strict=True)
        )
        found.append(Part(number, rate, workers, java))
    return found


def _reached(looks: list[Look], rows: int) -> float:
    """When the brokers had so many rows; for none: when they had the first ones."""
    before = looks[0]
    for look in looks:
        if look.rows >= max(rows, 1):
            share = (rows - before.rows) / max(look.rows - before.rows, 1)
            return before.seconds + share * (look.seconds - before.seconds)
        before = look
    return looks[-1].seconds


def main() -> int:
    """0; 1 where the last tenth is slower than the first, or where workers have grown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.long", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000, help="default: %(default)s")
    asked = parser.parse_args()
    print(f"{machine()}; load average {os.getloadavg()[0]:.1f}", flush=True)
    with KafkaCluster(1) as kafka, session() as spark:
        _write(spark, kafka.create_topic("warm-up", PARTITIONS), kafka, WARM_UP)
        told_by_tasks()
        topic = kafka.create_topic("long", PARTITIONS, **KEPT)
        with Watch(kafka, topic) as watch:
            _write(spark, topic, kafka, asked.rows)
        tasks = told_by_tasks()
    parts = parts_of(watch.looks, asked.rows)
    print("| tenth | rows/s | MB of the Python workers | MB of Java |\n|---:|---:|---:|---:|")
    for part in parts:
        print(f"| {part.number} | {part.rate:,.0f} | {part.workers_mb:,} | {part.java_mb:,} |")
    seconds, share = watch.looks[-1].seconds, parts[-1].rate / parts[0].rate
    # The second tenth: in the first one, workers allocate what they keep.
    growth = parts[-1].workers_mb / max(parts[1].workers_mb, 1)
    print(
        f"{asked.rows:,} rows in {seconds:.1f} s, {asked.rows / seconds:,.0f} rows/s, {cpu_micros(tasks):.2f} us of the workers' "
        f"processor time a row; the last tenth has {share:.2f} x the rate of the first (goal 0.95), and workers have {growth:.2f} x "
        "the memory of the second tenth (goal 1.05)"
    )
    return int(share < 0.95 or growth > 1.05)


def _write(spark: SparkSession, topic: str, kafka: KafkaCluster, count: int) -> None:
    entrant = ENTRANTS[EXACTLY]
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic, **entrant.options}
    df = spark.range(0, count, numPartitions=TASKS).selectExpr(*columns("id"))
    df.write.format(entrant.format).options(**options).mode("append").save()


if __name__ == "__main__":
    sys.exit(main())

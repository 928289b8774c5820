"""For spark-submit: writes with speculation, so that two attempts of a task write at the same time."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from aioproducer.spark import foreach_batch, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SCHEMA = "key string, value string"
SLOW = 1


def in_two_attempts(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows. The first attempt of one task has its last rows when another attempt has some of its own."""
    context: Any = TaskContext.get()
    attempt = context.attemptNumber()
    is_slow = context.partitionId() == SLOW
    begun = Path(folder)
    for batch in batches:
        half = len(batch) // 2
        yield batch[:half]
        if is_slow and attempt == 0:
            while not (begun / "1").exists():
                time.sleep(0.01)
        yield batch[half:]
        if is_slow:
            (begun / str(attempt)).touch()


class Ways:
    """The ways of writing: a method for each, with the name of its topic."""

    def __init__(self, spark: SparkSession, servers: str, folder: Path, count: int) -> None:
        self.spark = spark
        self.servers = servers
        self.folder = folder
        self.count = count

    def run(self, way: str, topic: str, more: dict[str, str]) -> list[str]:
        """Write in this way, and name the attempts of the slow task that had all of their rows."""
        begun = self.folder / f"begun-{topic}"
        begun.mkdir()
        options = {"kafka.bootstrap.servers": self.servers, "topic": topic, **more}
        getattr(self, way)(partial(in_two_attempts, str(begun)), options)
        return sorted(file.name for file in begun.iterdir())

    def batch(self, slow: Any, options: dict[str, str]) -> None:
        """Write a batch by the format."""
        self._numbers(slow).write.format("aioproducer").options(**options).mode("append").save()

    def stream(self, slow: Any, options: dict[str, str]) -> None:
        """Write an epoch by the format."""
        self._run(self._epoch(slow).writeStream.format("aioproducer").options(**options), options)

    def epochs(self, slow: Any, options: dict[str, str]) -> None:
        """Write an epoch by `foreach_batch()`."""
        self._run(foreach_batch(self.spark, self._epoch(slow), options), options)

    def _numbers(self, slow: Any) -> DataFrame:
        numbers = self.spark.range(0, self.count, numPartitions=2).selectExpr(
            "cast(id % 10 as string) as key", "cast(id as string) as value"
        )
        return numbers.mapInArrow(slow, SCHEMA)

    def _epoch(self, slow: Any) -> DataFrame:
        lines = self.spark.readStream.format("text").load(str(self.folder / "source"))
        by_task = lines.repartition(2).selectExpr("value as key", "value")
        return by_task.mapInArrow(slow, SCHEMA)

    def _run(self, writing: DataStreamWriter, options: dict[str, str]) -> None:
        checkpoint = str(self.folder / f"checkpoint-{options['topic']}")
        writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def main(servers: str, folder: str, count: str, topics: str) -> None:
    """Write in each way; the last line is the result."""
    spark = SparkSession.builder.appName("speculative").getOrCreate()
    register(spark)
    ways = Ways(spark, servers, Path(folder), int(count))
    found = {topic: ways.run(way, topic, more) for topic, (way, more) in json.loads(topics).items()}
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""For spark-submit with dynamic allocation: executors come while an epoch or a batch waits for them, and all go behind it."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from aioproducer.spark import audit, register
from aioproducer.spark.auditing import marked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "key string, value string"
SOURCES, OF_EACH, TASKS = 12, 25, 4
EXECUTORS = 2
OF_STREAM, OF_BATCH = "source of the stream", "source of the batch"
LIMIT = 120.0


def executor() -> int:
    """The process id of the Java that this worker belongs to: the parent of the daemon it was forked from."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def until(condition: Any) -> None:
    """Wait until the condition holds: it is polled, as other processes send no event."""
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the executors did not come, or did not go")
        time.sleep(0.02)


def on_two_executors(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows; the last ones come when tasks of this epoch run on two executors."""
    context: Any = TaskContext.get()
    epoch = context.getLocalProperty("streaming.sql.batchId") or "batch"
    seen = Path(folder) / epoch
    seen.mkdir(exist_ok=True)
    (seen / str(executor())).touch()
    for batch in batches:
        half = len(batch) // 2
        yield batch[:half]
        until(lambda: len(list(seen.iterdir())) == EXECUTORS)
        yield batch[half:]


class Elastic:
    """A stream and a batch; between their epochs there is no executor."""

    def __init__(self, spark: SparkSession, servers: str, folder: Path) -> None:
        self.spark = spark
        self.servers = servers
        self.folder = folder
        (folder / "source").mkdir()
        (folder / "executors").mkdir()

    def stream(self, topic: str, epochs: int) -> None:
        """Write an epoch for each of so many files."""
        lines = self.spark.readStream.format("text").load(str(self.folder / "source" / "*"))
        writing = self._on_two(lines).writeStream.format("aioproducer").options(**self._options(topic))
        query = writing.option("checkpointLocation", str(self.folder / "checkpoint")).start()
        try:
            for epoch in range(epochs):
                self.no_executor_is_left()
                self.write_files(epoch)
                query.processAllAvailable()
        finally:
            query.stop()

    def batch(self, topic: str, epochs: int) -> None:
        """Write the rows of so many epochs at once."""
        self.no_executor_is_left()
        count = epochs * OF_EACH
        lines = self.spark.range(0, SOURCES * count, numPartitions=TASKS).selectExpr(
            f"concat('{OF_BATCH} ', id div {count}, ',', id % {count}) as value"
        )
        writing = self._on_two(lines).write.format("aioproducer").options(**self._options(topic))
        writing.mode("append").save()

    def write_files(self, epoch: int) -> None:
        """The rows of an epoch, a file for each task: those of a source follow each other from epoch to epoch."""
        numbers = range(epoch * OF_EACH, (epoch + 1) * OF_EACH)
        (self.folder / "made").mkdir()
        for task in range(TASKS):
            lines = (
                f"{OF_STREAM} {source},{at}\n" for at in numbers for source in range(task, SOURCES, TASKS)
            )
            (self.folder / "made" / f"{task}.txt").write_text("".join(lines))
        # Spark lists the folder while it appears: all files at once, or none.
        (self.folder / "made").rename(self.folder / "source" / f"epoch={epoch}")

    def no_executor_is_left(self) -> None:
        """Wait until Spark has removed all of them."""
        context: Any = self.spark.sparkContext
        until(lambda: context._jsc.sc().getExecutorIds().isEmpty())

    def executors(self) -> dict[str, list[str]]:
        """The executors of each epoch."""
        seen = (self.folder / "executors").iterdir()
        return {folder.name: sorted(file.name for file in folder.iterdir()) for folder in seen}

    def are_clean(self, topics: list[str], epochs: int) -> bool:
        """Whether the audit has found each row of both once."""
        names = (f"{kind} {source}" for kind in (OF_STREAM, OF_BATCH) for source in range(SOURCES))
        verdict = audit(self.spark, self.servers, topics, expected=dict.fromkeys(names, epochs * OF_EACH))
        print(verdict.as_json())
        return verdict.is_clean

    def _on_two(self, lines: DataFrame) -> DataFrame:
        parts = lines.selectExpr(
            "split(value, ',')[0] as key", "cast(split(value, ',')[1] as bigint) as number"
        )
        rows = parts.select("key", marked("key", "number", "''").alias("value"))
        return rows.mapInArrow(partial(on_two_executors, str(self.folder / "executors")), SCHEMA)

    def _options(self, topic: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.servers, "topic": topic, "delivery": "exactly-once"}


def main(servers: str, folder: str, stream: str, batch: str, epochs: str) -> None:
    """Write both, and audit both; the last line is the result."""
    spark = SparkSession.builder.appName("elastic").getOrCreate()
    register(spark)
    work, count = Elastic(spark, servers, Path(folder)), int(epochs)
    work.stream(stream, count)
    work.batch(batch, count)
    are_clean = work.are_clean([stream, batch], count)
    print(json.dumps({"executors": work.executors(), "are_clean": are_clean}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

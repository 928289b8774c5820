"""DataFrames for writing, and readers of the topic."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext

from aioproducer.spark.auditing import marked
from tests.kafka.reading import ReadRecord, read_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = "key string, value string"


def numbered(spark: SparkSession, count: int, tasks: int = 4) -> DataFrame:
    """Rows with the numbers from 0 on: the key is the rest by ten, the value the number."""
    return spark.range(0, count, numPartitions=tasks).selectExpr(
        "cast(id % 10 as string) as key", "cast(id as string) as value"
    )


def committed(options: dict[str, str], topic: str | None = None) -> list[ReadRecord]:
    """The committed records that a reader finds."""
    return read_all(options["kafka.bootstrap.servers"], topic or options["topic"], isolation="read_committed")


def numbers(records: list[ReadRecord]) -> Counter[int]:
    """The count of each number."""
    return Counter(int(record.value or b"") for record in records)


def once(count: int) -> Counter[int]:
    """Each of the numbers from 0 on, once."""
    return Counter(range(count))


def failing(df: DataFrame, *, attempts: int, at_task: int = 1, dies: bool = False) -> DataFrame:
    """The same rows, but so many attempts of one task fail after all of its rows were handed out."""

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context: Any = TaskContext.get()
        if context.partitionId() == at_task and context.attemptNumber() < attempts:
            if dies:
                os._exit(1)
            raise RuntimeError("a failure of the test")

    return df.mapInArrow(fail, SCHEMA)


def failing_late(df: DataFrame, signal: Path) -> DataFrame:
    """The same rows, but every attempt of the first task fails as soon as this file exists."""

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context: Any = TaskContext.get()
        if context.partitionId() == 0:
            while not signal.exists():
                time.sleep(0.01)
            raise RuntimeError("a failure of the test")

    return df.mapInArrow(fail, SCHEMA)


# A source has a key of its own, so that its rows stay in one task and in one partition of the topic.
SOURCES_OF_A_STREAM = 12


def marked_stream(spark: SparkSession, rows: int, tasks: int, epochs: int) -> DataFrame:
    """So many rows in each of the first epochs, the same on every read, and none after them."""
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", tasks)
        .option("startTimestamp", 1_700_000_000_000)
        .option("advanceMillisPerBatch", 1_000)
        .load()
        .where(f"value < {rows * epochs}")
    )
    return marked_rows(numbers)


def marked_rows(numbers: DataFrame) -> DataFrame:
    """The rows of these numbers, which an audit knows: the number of each in its source is that of its order."""
    source = f"concat('source ', value % {SOURCES_OF_A_STREAM})"
    value = marked(source, f"value div {SOURCES_OF_A_STREAM}", "repeat('é', int(value % 50))")
    return numbers.selectExpr(f"{source} as key", "value").select("key", value.alias("value"))


def write_stream(
    df: DataFrame, options: dict[str, str], checkpoint: Path, name: str = "aioproducer"
) -> StreamingQuery:
    """Write all input by the sink of this name, and return the query once it has ended."""
    writing = df.writeStream.format(name).options(**options).option("checkpointLocation", str(checkpoint))
    query = writing.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def expected_of_a_stream(rows: int, epochs: int) -> dict[str, int]:
    """The number of rows of each source in all epochs together."""
    total = rows * epochs
    assert rows % SOURCES_OF_A_STREAM == 0, "each epoch has as many of each"
    return {f"source {number}": total // SOURCES_OF_A_STREAM for number in range(SOURCES_OF_A_STREAM)}


def forget_last_commit(checkpoint: Path) -> None:
    """Remove the last commit, as if the driver had died before it recorded the epoch."""
    (last,) = sorted(checkpoint.glob("commits/[0-9]*"), key=lambda file: int(file.name))[-1:]
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)

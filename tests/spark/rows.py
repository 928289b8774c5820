"""DataFrames to be written, and what a reader of the topic finds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext

from tests.kafka.reading import ReadRecord, read_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "key string, value string"


def numbered(spark: SparkSession, count: int, tasks: int = 4) -> DataFrame:
    """Rows with the numbers from 0 on: the key is the rest by ten, the value the number."""
    return spark.range(0, count, numPartitions=tasks).selectExpr(
        "cast(id % 10 as string) as key", "cast(id as string) as value"
    )


def committed(options: dict[str, str], topic: str | None = None) -> list[ReadRecord]:
    """What a reader of committed records finds."""
    return read_all(options["kafka.bootstrap.servers"], topic or options["topic"], isolation="read_committed")


def numbers(records: list[ReadRecord]) -> Counter[int]:
    """How often each number was found."""
    return Counter(int(record.value or b"") for record in records)


def once(count: int) -> Counter[int]:
    """Each of the numbers from 0 on, once."""
    return Counter(range(count))


def failing(df: DataFrame, *, attempts: int, at_task: int = 1, dies: bool = False) -> DataFrame:
    """The same rows, but so many attempts of one task fail once all of its rows were handed out."""

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context: Any = TaskContext.get()
        if context.partitionId() == at_task and context.attemptNumber() < attempts:
            if dies:
                os._exit(1)
            raise RuntimeError("a failure of the test")

    return df.mapInArrow(fail, SCHEMA)

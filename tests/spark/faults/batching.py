"""A program that writes one batch, and reports a refusal by Spark; its only argument is an `Order` as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
from pyspark import TaskContext
from pyspark.errors import PySparkException

from aioproducer.spark.source import KafkaSink
from tests.spark.faults.diary import Entry
from tests.spark.faults.processes import session_of
from tests.spark.faults.sinks import (
    FOLDER,
    KILLED_AFTER,
    HeldBatches,
    KilledBatches,
    diary_in,
    go_on,
    wait_for,
)
from tests.spark.rows import SCHEMA, numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Order"]


@attrs.frozen
class Order:
    """The rows of a batch, and its faults."""

    folder: str
    master: str
    options: dict[str, str]
    rows: int
    tasks: int
    # The driver dies after so many commits; None: one task is held, and another fails for good on a signal.
    killed_after: int | None = None

    def write(self) -> str:
        """The order as an argument."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def read(cls, argument: str) -> Order:
        """The order of an argument."""
        return cls(**json.loads(argument))


def failing_when_told(df: DataFrame, folder: str) -> DataFrame:
    """The same rows, but every attempt of the second task fails after the signal."""
    return df.mapInArrow(partial(_fail_when_told, folder), SCHEMA)


def _fail_when_told(folder: str, batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches
    context = TaskContext.get()
    assert context is not None
    if context.partitionId() == 1:
        wait_for(go_on(folder, 1))
        raise RuntimeError("a failure of the test")


def faulty(rows: DataFrame, order: Order) -> tuple[DataFrame, type[KafkaSink], dict[str, str]]:
    """The rows, the sink, and its options."""
    if order.killed_after is None:
        return failing_when_told(rows, order.folder), HeldBatches, {FOLDER: order.folder}
    return rows, KilledBatches, {KILLED_AFTER: f"{order.killed_after}:{os.getpgrp()}"}


def main(order: Order) -> None:
    """Write, and note an error in the diary."""
    spark = session_of(order.master, order.folder)
    rows, sink, fault = faulty(numbered(spark, order.rows, order.tasks), order)
    spark.dataSource.register(sink)
    try:
        rows.write.format(sink.name()).options(**order.options, **fault).mode("append").save()
    except PySparkException as error:
        diary_in(order.folder).tell(Entry("refused", "job", 0, detail=str(error)[:2_000]))
    spark.stop()


if __name__ == "__main__":
    main(Order.read(sys.argv[1]))

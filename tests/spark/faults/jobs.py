"""A program that writes one batch after the other exactly once, each with a `write.id` of its own, until it is killed or done.

Its only argument is an `Order` as JSON. It continues with the first job that is not noted as done, and runs a job again
whose commit() failed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from tests.spark.faults.order import Order
from tests.spark.faults.processes import session_of
from tests.spark.faults.sinks import COMMIT_FAILS, EXACTLY_ONCE, FAULTS, JOB, FaultyJobs
from tests.spark.rows import marked_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def done(order: Order, number: int) -> Path:
    """The file that notes the end of a job."""
    return Path(order.folder) / f"job {number} is done"


def rows_of(spark: SparkSession, order: Order, number: int) -> DataFrame:
    """The rows of a job, the same in each run, distributed as those of a stream: each source is in one task, in order."""
    of_a_task, first = order.rows // order.tasks, number * order.rows
    value = f"{first} + id div {of_a_task} + {order.tasks} * (id % {of_a_task})"
    return marked_rows(spark.range(0, order.rows, numPartitions=order.tasks).selectExpr(f"{value} as value"))


def write(spark: SparkSession, order: Order, number: int) -> None:
    """Run a job, and again after an injected failure of the driver."""
    options = {
        **order.connection,
        "topic": order.topics[EXACTLY_ONCE],
        "delivery": EXACTLY_ONCE,
        "write.id": f"job {number} of {order.topics[EXACTLY_ONCE]}",
        FAULTS: order.faults(EXACTLY_ONCE).write(),
        JOB: str(number),
    }
    writing = rows_of(spark, order, number).write.format(FaultyJobs.name()).options(**options).mode("append")
    try:
        writing.save()
    except PySparkException as error:
        if COMMIT_FAILS not in str(error):
            raise
        writing.save()


def main(order: Order) -> None:
    """Run until all are done."""
    assert order.rows % order.tasks == 0, "each task has as many"
    spark = session_of(order.master, order.folder, **order.arrow, **order.settings)
    spark.dataSource.register(FaultyJobs)
    for number in range(order.epochs):
        if not done(order, number).exists():
            write(spark, order, number)
            done(order, number).touch()
    spark.stop()


if __name__ == "__main__":
    main(Order.read(sys.argv[1]))

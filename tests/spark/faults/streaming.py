"""A program that writes one stream in two ways, exactly once and at least once, until both are done or it is killed.

Its only argument is an `Order` as JSON. It continues from the checkpoints, and restarts a query that a failing
commit() has ended.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from tests.spark.faults.order import Order
from tests.spark.faults.processes import session_of
from tests.spark.faults.sinks import COMMIT_FAILS, FAULTS, FaultyStreams
from tests.spark.rows import marked_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def checkpoint(order: Order, delivery: str) -> Path:
    """The checkpoint of a query."""
    return Path(order.folder) / f"checkpoint, {delivery}"


def is_done(order: Order, delivery: str) -> bool:
    """Whether Spark has recorded the commit of the last epoch with rows."""
    return (checkpoint(order, delivery) / "commits" / str(order.epochs - 1)).exists()


def start(spark: SparkSession, order: Order, delivery: str) -> Any:
    """Start a query at its checkpoint."""
    rows = marked_stream(spark, order.rows, order.tasks, order.epochs)
    options = {
        **order.connection,
        "topic": order.topics[delivery],
        "delivery": delivery,
        "checkpointLocation": str(checkpoint(order, delivery)),
        FAULTS: order.faults(delivery).write(),
    }
    return rows.writeStream.format(FaultyStreams.name()).options(**options).start()


def went_on(spark: SparkSession, order: Order, delivery: str, query: Any) -> Any:
    """The query, or its restart after an injected failure; None when all is done."""
    if is_done(order, delivery):
        if query is not None:
            query.stop()
        return None
    if query is None:
        return start(spark, order, delivery)
    try:
        ended = query.awaitTermination(0.05)
    except StreamingQueryException as error:
        if COMMIT_FAILS not in str(error):
            raise
        ended = True
    return start(spark, order, delivery) if ended else query


def main(order: Order) -> None:
    """Run until both are done."""
    spark = session_of(order.master, order.folder, **order.arrow, **order.settings)
    spark.dataSource.register(FaultyStreams)
    queries: dict[str, Any] = dict.fromkeys(order.topics)
    while not all(is_done(order, delivery) for delivery in order.topics):
        for delivery in order.topics:
            queries[delivery] = went_on(spark, order, delivery, queries[delivery])
        # Spark sends Python no event of a query's progress.
        time.sleep(0.05)
    for query in filter(None, queries.values()):
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main(Order.read(sys.argv[1]))

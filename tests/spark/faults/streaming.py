"""A program that writes one stream in two ways, exactly once and at least once, until both are done or it is killed.

Its only argument is an `Order` as JSON. It continues from the checkpoints, and restarts a query that a failing
commit() has ended.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
from pyspark.errors import StreamingQueryException

from tests.spark.faults.injected import Faults
from tests.spark.faults.processes import session_of
from tests.spark.faults.sinks import COMMIT_FAILS, FAULTS, FaultyStreams
from tests.spark.rows import marked_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Order"]

BATCHES_OF_A_TASK: Final = 4


@attrs.frozen
class Order:
    """The rows of the streams, and their faults."""

    servers: str
    # For checkpoints, the diary and all other files of Spark.
    folder: str
    # The topic of each guarantee.
    topics: dict[str, str]
    master: str
    seed: int
    epochs: int
    # Rows of an epoch.
    rows: int
    tasks: int
    likely: float
    commits: tuple[int, ...]
    # Epochs in which whole processes end.
    incidents: tuple[int, ...]
    # Epochs in which one attempt waits for another one of its task.
    waits: tuple[int, ...] = ()
    # Of Spark.
    settings: dict[str, str] = attrs.field(factory=dict)

    def write(self) -> str:
        """The order as an argument."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def read(cls, argument: str) -> Order:
        """The order of an argument."""
        facts = json.loads(argument)
        return cls(**facts | {name: tuple(facts[name]) for name in ("commits", "incidents", "waits")})

    def faults(self, delivery: str) -> Faults:
        """The faults of a query, the same for both."""
        return Faults(
            self.seed,
            delivery,
            self.folder,
            self.tasks,
            self.epochs,
            self.likely,
            self.commits,
            self.incidents,
            self.waits,
        )

    def checkpoint(self, delivery: str) -> Path:
        """The checkpoint of a query."""
        return Path(self.folder) / f"checkpoint, {delivery}"

    def is_done(self, delivery: str) -> bool:
        """Whether Spark has recorded the commit of the last epoch with rows."""
        return (self.checkpoint(delivery) / "commits" / str(self.epochs - 1)).exists()


def start(spark: SparkSession, order: Order, delivery: str) -> Any:
    """Start a query at its checkpoint."""
    rows = marked_stream(spark, order.rows, order.tasks, order.epochs)
    options = {
        "kafka.bootstrap.servers": order.servers,
        "topic": order.topics[delivery],
        "delivery": delivery,
        "checkpointLocation": str(order.checkpoint(delivery)),
        FAULTS: order.faults(delivery).write(),
    }
    return rows.writeStream.format(FaultyStreams.name()).options(**options).start()


def went_on(spark: SparkSession, order: Order, delivery: str, query: Any) -> Any:
    """The query, or its restart after an injected failure; None when all is done."""
    if order.is_done(delivery):
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
    each = max(order.rows // order.tasks // BATCHES_OF_A_TASK, 1)
    settings = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(each), **order.settings}
    spark = session_of(order.master, order.folder, **settings)
    spark.dataSource.register(FaultyStreams)
    queries: dict[str, Any] = dict.fromkeys(order.topics)
    while not all(map(order.is_done, order.topics)):
        for delivery in order.topics:
            queries[delivery] = went_on(spark, order, delivery, queries[delivery])
        # Spark sends Python no event of a query's progress.
        time.sleep(0.05)
    for query in filter(None, queries.values()):
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main(Order.read(sys.argv[1]))

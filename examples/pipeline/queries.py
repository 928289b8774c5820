"""The driver: two streams that run until all orders are written: `python -m examples.pipeline.queries job.json`.

Both read the same orders. The first writes each order into the topic of its region, through `format("aioproducer")`. The
second writes sums, whose order matters, through `write()` in a function for `foreachBatch`. Killed at any moment and
started again with the same folder, they go on where they were.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Self

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from aioproducer.spark import register, write

from .steps import DEAD, SUMS, enriched, in_order, parsed, routed, summed, table_of_shops
from .topic import TopicSource


@attrs.frozen
class Job:
    """The places that the pipeline reads and writes."""

    servers: str
    # A folder of files with an order a line, and a topic with an order a record.
    files: str
    topic: str
    # The checkpoints of both queries.
    state: str
    # The region of each shop.
    regions: dict[str, str]
    # The start of the first window, in seconds.
    first_second: int
    # How many records of the topic an epoch has, beside one file.
    records: int

    @classmethod
    def of(cls, file: Path) -> Self:
        """The job that a file describes."""
        return cls(**json.loads(file.read_text()))

    def save(self, file: Path) -> None:
        """Describe it in a file."""
        file.write_text(json.dumps(attrs.asdict(self)))

    def options(self, **more: str) -> dict[str, str]:
        """The options of both sinks."""
        return {"kafka.bootstrap.servers": self.servers, "delivery": "exactly-once", **more}

    def state_of(self, query: str) -> Path:
        """The checkpoint of a query."""
        return Path(self.state) / query


def orders(spark: SparkSession, job: Job) -> DataFrame:
    """The checked orders of both sources."""
    files = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(job.files)
    topic = spark.readStream.format("topic").option("kafka.bootstrap.servers", job.servers)
    records = topic.option("subscribe", job.topic).option("maxOffsetsPerTrigger", job.records).load()
    both = parsed(files).unionByName(parsed(records.select("value")))
    return enriched(both, table_of_shops(spark, job.regions))


def write_orders(spark: SparkSession, job: Job) -> StreamingQuery:
    """Each order goes to the topic of its region. A row that cannot be written there becomes a dead letter, too."""
    # Marks of finished work are in the ledger; their offsets belong to a topic that always exists.
    options = job.options(**{"marker.topic": DEAD, "on.error": DEAD, "sink.id": "orders"})
    writing = routed(orders(spark, job)).writeStream.format("aioproducer").options(**options)
    writing = writing.queryName("orders").option("checkpointLocation", str(job.state_of("orders")))
    return writing.trigger(availableNow=True).start()


def write_sums(spark: SparkSession, job: Job) -> StreamingQuery:
    """A sum is written once its window is over, in the order of the windows: `foreachBatch` can sort, a stream cannot."""

    def write_epoch(sums: DataFrame, epoch: int) -> None:
        write(in_order(sums, job.first_second), job.options(topic=SUMS), epoch=("sums", epoch))

    writing = summed(orders(spark, job)).writeStream.foreachBatch(write_epoch)
    writing = writing.queryName("sums").option("checkpointLocation", str(job.state_of("sums")))
    return writing.trigger(availableNow=True).start()


def run(spark: SparkSession, job: Job) -> None:
    """Write all that the sources have now. A pipeline that never ends has `trigger(processingTime="10 seconds")`."""
    spark.dataSource.register(TopicSource)
    # Necessary in a checkout only: Spark finds the format of an installed library.
    register(spark)
    for query in (write_orders(spark, job), write_sums(spark, job)):
        query.awaitTermination()


def main(file: str) -> None:
    """Run on the cluster that the variable MASTER names, or on this machine."""
    spark = (
        SparkSession.builder.master(os.environ.get("MASTER", "local[2]"))
        .appName("pipeline")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        # The state of a sum has so many parts, which cannot change later.
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        # Each source has its own watermark: the slower one counts.
        .config("spark.sql.streaming.multipleWatermarkPolicy", "min")
        # A lost executor is no failure of the task.
        .config("spark.task.maxFailures", "8")
        .getOrCreate()
    )
    run(spark, Job.of(Path(file)))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])

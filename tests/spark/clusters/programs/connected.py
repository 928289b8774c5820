"""A client of Spark Connect that writes in every way, each into a topic of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from aioproducer import ConfigurationError
from aioproducer.spark import audit, foreach_batch, register, write
from aioproducer.spark.auditing import marked
from tests.spark.exactly_once.epochs import counts
from tests.spark.late_workers import with_workers
from tests.spark.rows import forget_last_commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

TASKS = 4


def is_exactly_once(options: dict[str, str]) -> bool:
    """Whether the topic's guarantee is exactly once."""
    return options["delivery"] == "exactly-once"


class Ways:
    """The ways of writing: a method for each, with the name of its topic."""

    def __init__(self, spark: SparkSession, servers: str, folder: Path, count: int) -> None:
        self.spark = spark
        self.servers = servers
        self.folder = folder
        self.count = count

    def batch(self, options: dict[str, str]) -> None:
        """Write a batch by the format."""
        self._numbers().write.format("aioproducer").options(**options).mode("append").save()

    def stream(self, options: dict[str, str]) -> None:
        """Write a stream by the format."""
        source = self.spark.readStream.format("text").option("maxFilesPerTrigger", 1)
        lines = source.load(str(self.folder / "source")).repartition(2, "value")
        self._run(lines.writeStream.format("aioproducer").options(**options), options)

    def function(self, options: dict[str, str]) -> None:
        """Write by `write()`."""
        assert write(self._numbers(), options).rows == self.count

    def updates(self, options: dict[str, str]) -> None:
        """Write by `foreach_batch()`."""
        pinned = options | {"sink.id": options["topic"]} if is_exactly_once(options) else options
        df = counts(self.spark, self.folder / "source")
        self._run(foreach_batch(self.spark, df, pinned).outputMode("update"), options)

    def _numbers(self) -> DataFrame:
        return self.spark.range(0, self.count, numPartitions=TASKS).selectExpr(
            "cast(id % 10 as string) as key", "cast(id as string) as value"
        )

    def _run(self, writing: DataStreamWriter, options: dict[str, str]) -> None:
        """Write all input; repeat the last epoch of an exactly-once stream."""
        checkpoint = self.folder / options["topic"]
        to_the_end = writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        with_workers(to_the_end.start).awaitTermination()
        if is_exactly_once(options):
            forget_last_commit(checkpoint)
            with_workers(to_the_end.start).awaitTermination()

    def nameless(self, options: dict[str, str]) -> str:
        """The error of exactly-once updates without a sink.id."""
        try:
            foreach_batch(self.spark, counts(self.spark, self.folder / "source"), options)
        except ConfigurationError as error:
            return str(error)
        return "nothing"

    def audited(self, options: dict[str, str]) -> Any:
        """The audit's verdict on a batch."""
        rows = self._numbers().select(
            "key", marked("concat('s', key)", "value div 10", "value").alias("value")
        )
        rows.coalesce(1).write.format("aioproducer").options(**options).mode("append").save()
        verdict = audit(self.spark, self.servers, [options["topic"]])
        return json.loads(verdict.as_json())


def main(servers: str, server: str, folder: str, count: str, topics: str, page: str) -> None:
    """Run the page's program, then every way; the last line is the result."""
    exec(compile(Path(page).read_text(), page, "exec"), {"__name__": "__main__"})
    spark = SparkSession.builder.remote(server).getOrCreate()
    register(spark)
    ways = Ways(spark, servers, Path(folder), int(count))
    results = {}
    for topic, (way, delivery) in json.loads(topics).items():
        options = {"kafka.bootstrap.servers": servers, "topic": topic, "delivery": delivery}
        results[way] = getattr(ways, way)(options)
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])

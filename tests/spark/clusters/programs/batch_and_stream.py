"""For spark-submit: writes the numbers of a batch into one topic and those of a stream into another, each exactly once."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import aioproducer


def place_of_the_library(_: int) -> str:
    """The place from which a task imports the library."""
    return aioproducer.__file__


def main(servers: str, batch: str, stream: str, source: str, checkpoint: str, count: str) -> None:
    """Write, and print the places from which the tasks have imported the library."""
    spark = SparkSession.builder.appName("batch and stream").getOrCreate()
    options = {"kafka.bootstrap.servers": servers, "delivery": "exactly-once"}
    numbers = spark.range(0, int(count), numPartitions=4).selectExpr(
        "cast(id % 10 as string) as key", "cast(id as string) as value"
    )
    numbers.write.format("aioproducer").options(**options, topic=batch).mode("append").save()
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(source)
    writing = lines.repartition(2, "value").writeStream.format("aioproducer").options(**options, topic=stream)
    writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    # By plain tasks, as mapInArrow() needs pandas.
    places = spark.sparkContext.parallelize(range(2), 2).map(place_of_the_library).collect()
    print(json.dumps(sorted(set(places))))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

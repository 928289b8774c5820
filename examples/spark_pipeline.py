"""A batch and a stream of DataFrames into Kafka, exactly once, and the proof: python examples/spark_pipeline.py [report.png].

Without the environment variable KAFKA it brings a Kafka of its own along, embedded in this process; else the topic `sales`
has to be there. Needs Java 17 and `pip install "aioproducer[cli,spark]"`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from anyio.from_thread import start_blocking_portal
from pyspark.sql import DataFrame, SparkSession

from aioproducer.spark import audit, register
from aioproducer.spark.auditing import marked
from aioproducer.spark.auditing.picture import draw
from aioproducer.testing import EmbeddedKafka

TOPIC = "sales"
ROWS = 200_000
SHOPS = 4
EACH = ROWS // SHOPS


@contextlib.contextmanager
def kafka() -> Iterator[str]:
    """Where Kafka is."""
    if "KAFKA" in os.environ:
        yield os.environ["KAFKA"]
        return
    # Spark blocks this thread: the embedded Kafka has its event loop in another one.
    with start_blocking_portal() as portal:
        broker = EmbeddedKafka()
        with portal.wrap_async_context_manager(broker):
            portal.call(broker.create_topic, TOPIC, 6)
            yield broker.bootstrap_servers


def sales(spark: SparkSession, kind: str) -> DataFrame:
    """What some shops have sold: a task for each of them, which are numbered so that the audit can follow them."""
    rows = spark.range(0, ROWS, numPartitions=SHOPS)
    rows = rows.selectExpr(f"concat('{kind} shop ', id div {EACH}) as shop", f"id % {EACH} as number")
    values = marked("shop", "number", "to_json(struct(shop, number, number % 97 as pence))")
    return rows.select(rows.shop.alias("key"), values.alias("value"))


def write_batch(spark: SparkSession, options: dict[str, str]) -> None:
    """All rows become visible together, and only once: the job has a name, and is run twice."""
    for _ in range(2):
        job = sales(spark, "batch").write.format("aioproducer").options(**options)
        job.option("write.id", "sales of today").mode("append").save()


def write_stream(spark: SparkSession, options: dict[str, str], folder: Path) -> None:
    """Files become epochs, one each; a query that was stopped goes on from its checkpoint."""
    files = sales(spark, "stream")
    files.write.parquet(f"{folder}/files")
    source = spark.readStream.schema(files.schema).option("maxFilesPerTrigger", 1).parquet(f"{folder}/files")
    writing = source.writeStream.format("aioproducer").options(**options)
    query = writing.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()


def main(report: str) -> int:
    """Write, read back with another client, and show what was found."""
    # Spark would take whatever is called python3.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("sales")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    # Only where the library runs from a checkout: Spark finds by itself what is installed.
    register(spark)
    with kafka() as servers, tempfile.TemporaryDirectory() as folder:
        options = {"kafka.bootstrap.servers": servers, "topic": TOPIC, "delivery": "exactly-once"}
        began = time.monotonic()
        write_batch(spark, options)
        print(f"a batch, twice: {time.monotonic() - began:.1f} s", flush=True)
        began = time.monotonic()
        write_stream(spark, options, Path(folder))
        print(f"a stream of {SHOPS} epochs: {time.monotonic() - began:.1f} s", flush=True)
        expected = {f"{kind} shop {shop}": EACH for kind in ("batch", "stream") for shop in range(SHOPS)}
        verdict = audit(spark, servers, [TOPIC], expected=expected)
    spark.stop()
    print(verdict.as_table())
    draw(Path(report), verdict, verdict.pieces)
    print(f"the picture: {report}")
    return 0 if verdict.is_clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "report.png"))

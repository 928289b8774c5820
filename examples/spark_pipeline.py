"""A batch and a stream of DataFrames into Kafka, exactly once, with an audit: python examples/spark_pipeline.py [report.png].

Without the environment variable KAFKA it uses a Kafka embedded in this process; with it, the topic `sales` must exist
there. Needs Java 17 and `pip install "aioproducer[cli,spark]"`.
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
    """The address of Kafka."""
    if "KAFKA" in os.environ:
        yield os.environ["KAFKA"]
        return
    # Spark blocks this thread, so the event loop of the embedded Kafka runs in another one.
    with start_blocking_portal() as portal:
        broker = EmbeddedKafka()
        with portal.wrap_async_context_manager(broker):
            portal.call(broker.create_topic, TOPIC, 6)
            yield broker.bootstrap_servers


def sales(spark: SparkSession, kind: str) -> DataFrame:
    """The sales of some shops, a task for each shop; the numbers of the rows are for the audit."""
    rows = spark.range(0, ROWS, numPartitions=SHOPS)
    rows = rows.selectExpr(f"concat('{kind} shop ', id div {EACH}) as shop", f"id % {EACH} as number")
    values = marked("shop", "number", "to_json(struct(shop, number, number % 97 as pence))")
    return rows.select(rows.shop.alias("key"), values.alias("value"))


def write_batch(spark: SparkSession, options: dict[str, str]) -> None:
    """All rows become visible together, and only once: the job has a name, and runs twice."""
    for _ in range(2):
        job = sales(spark, "batch").write.format("aioproducer").options(**options)
        job.option("write.id", "sales of today").mode("append").save()


def write_stream(spark: SparkSession, options: dict[str, str], folder: Path) -> None:
    """Each file becomes an epoch; a stopped query continues from its checkpoint."""
    files = sales(spark, "stream")
    files.write.parquet(f"{folder}/files")
    source = spark.readStream.schema(files.schema).option("maxFilesPerTrigger", 1).parquet(f"{folder}/files")
    writing = source.writeStream.format("aioproducer").options(**options)
    query = writing.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()


def run(spark: SparkSession, report: str) -> int:
    """Write, read back with another client, and show the result of the audit."""
    # Necessary in a checkout only: Spark finds the format of an installed library.
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
    print(verdict.as_table())
    draw(Path(report), verdict, verdict.pieces)
    print(f"the picture: {report}")
    return 0 if verdict.is_clean else 1


def main(report: str) -> int:
    """Run it in a Spark of its own."""
    # The default of Spark is `python3` on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("sales")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    try:
        return run(spark, report)
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "report.png"))

"""Archive the classes of the Spark of this environment, if that has not been done: `python -m tools.spark_classes`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from tools.class_archives import archive_classes
from tools.quick_spark import COMPILED_QUICKLY, SUBMIT_OPTIONS, spark_archive


def _run_driver(option: str) -> None:
    """Run a driver with this option for Java, and wait for Java's end."""
    # Hundreds of lines otherwise name the classes that cannot be archived.
    os.environ[SUBMIT_OPTIONS] = " ".join([*COMPILED_QUICKLY, option, "-Xlog:disable"])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    for name in ("host", "bindAddress"):
        builder = builder.config(f"spark.driver.{name}", "127.0.0.1")
    with tempfile.TemporaryDirectory() as folder:
        session = builder.config("spark.sql.warehouse.dir", folder).getOrCreate()
        _write(session, Path(folder))
        gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - Java archives its classes after `stop()`
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(300)


def _write(session: SparkSession, folder: Path) -> None:
    """Load the classes of batches, of streams and of workers in Python."""
    rows = session.range(100).selectExpr("id", "cast(id as string) as value").repartition(2)
    rows.mapInArrow(_unchanged, rows.schema).groupBy("value").count().collect()
    rows.write.parquet(str(folder / "rows"))
    stream = session.readStream.schema(rows.schema).parquet(str(folder / "rows")).writeStream.format("noop")
    state = stream.trigger(availableNow=True).option("checkpointLocation", str(folder / "state"))
    state.start().awaitTermination()


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def main() -> None:
    """Make the archive, and print its path."""
    jars = Path(pyspark.__file__).parent / "jars"
    print(archive_classes(spark_archive(), jars, _run_driver))


if __name__ == "__main__":
    main()

"""The Spark session of all measurements, and the written rows."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.spark.connector import connector_jars
from benchmarks.spark.contest import FOLDER, KEY_SIZE, PARTITIONS, VALUE_SIZE
from benchmarks.spark.sinks import SINKS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT: Final = Path(__file__).parents[2]
KEYS: Final = 1_024
EPOCHS_REMEMBERED: Final = 1_000
COLUMNS: Final = (
    f"cast(lpad(cast({{number}} % {KEYS} as string), {KEY_SIZE}, '0') as binary) as key",
    f"cast(rpad(cast({{number}} as string), {VALUE_SIZE}, 'x') as binary) as value",
)


@contextmanager
def session(master: str = "local[2]") -> Iterator[SparkSession]:
    """Two threads, the sinks registered, and Spark's own connector on the class path."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  # only where there is a Spark

    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as told, tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER] = told
        spark = (
            SparkSession.builder.master(master)
            .config("spark.jars", ",".join(connector_jars()))
            .config("spark.driver.memory", "4g")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.log.level", "ERROR")
            .config("spark.sql.shuffle.partitions", "2")
            # Otherwise each task waits 40 ms for a delayed acknowledgement of TCP before its first rows.
            .config("spark.python.unix.domain.socket.enabled", "true")
            .config("spark.sql.streaming.numRecentProgressUpdates", EPOCHS_REMEMBERED)
            .config("spark.sql.warehouse.dir", folder)
            .getOrCreate()
        )
        for sink in SINKS:
            spark.dataSource.register(sink)
        try:
            yield spark
        finally:
            spark.stop()


def columns(number: str) -> list[str]:
    """Key and value of the row with this number, as SQL."""
    return [column.format(number=number) for column in COLUMNS]


def rows(spark: SparkSession, count: int) -> DataFrame:
    """So many rows in memory, for as many tasks as the topic has partitions."""
    df = spark.range(0, count, numPartitions=PARTITIONS).selectExpr(*columns("id")).cache()
    df.count()
    return df

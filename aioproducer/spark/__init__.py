"""DataFrames into Kafka through PySpark: `df.write.format("aioproducer")`, and `df.writeStream` alike.

Where the library is installed, Spark 4.1 and later find the format by its name; elsewhere `register(spark)` makes it known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer.spark.frames import foreach_batch as foreach_batch
from aioproducer.spark.frames import write as write
from aioproducer.spark.shipment import Written as Written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Written", "foreach_batch", "register", "write"]


def register(spark: SparkSession) -> None:
    """Make `format("aioproducer")` known to this session."""
    from aioproducer.spark.source import KafkaSink  # noqa: PLC0415  # older Sparks have no data sources in Python

    spark.dataSource.register(KafkaSink)

"""Where Spark looks for data sources that are installed: modules named `pyspark_…`, and their `DefaultSource`."""

from aioproducer.spark.source import KafkaSink as DefaultSource

__all__ = ["DefaultSource"]

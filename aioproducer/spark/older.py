"""What is said on a Spark that is too old for `format("aioproducer")`: there is `write()` and `foreach_batch()`."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import pyspark

from aioproducer import ConfigurationError

__all__ = ["require_formats"]

# What this format needs last came with Spark 4.1: streams that are written by Arrow batches.
NEEDED: Final = "DataSourceStreamArrowWriter"


def require_formats() -> None:
    """ConfigurationError unless formats can be written in Python as this one is."""
    if not _has_formats():
        raise ConfigurationError(
            f"format('aioproducer') requires Spark 4.1 or later, and this is {pyspark.__version__}: call "
            "aioproducer.spark.write(df, options) for a batch, and aioproducer.spark.foreach_batch(spark, df, options) "
            "for a stream; they take the same options"
        )


def _has_formats() -> bool:
    try:
        return hasattr(import_module("pyspark.sql.datasource"), NEEDED)
    except ModuleNotFoundError:
        return False

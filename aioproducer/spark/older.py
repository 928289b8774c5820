"""The error of a Spark that is too old for `format("aioproducer")`: it names `write()` and `foreach_batch()` instead."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import pyspark

from aioproducer import ConfigurationError

__all__ = ["require_formats"]

# The newest feature that this format needs, from Spark 4.1: streams that are written by Arrow batches.
NEEDED: Final = "DataSourceStreamArrowWriter"


def require_formats() -> None:
    """ConfigurationError unless this Spark supports formats in Python with the features that this one needs."""
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

"""The errors on a Spark without `format("aioproducer")`: they name the functions to call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
import pytest

from aioproducer import ConfigurationError
from aioproducer.spark import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_register_names_what_to_call(spark: SparkSession) -> None:
    """The error also has the version of this Spark."""
    with pytest.raises(ConfigurationError) as refusal:
        register(spark)
    words = (pyspark.__version__, "4.1 or later", "aioproducer.spark.write(df", "foreach_batch(spark, df")
    assert all(word in str(refusal.value) for word in words)


def test_format_is_not_found(spark: SparkSession) -> None:
    """This Spark reports it itself; from 4.0 on, where it finds formats in Python, its error names `register()`."""
    with pytest.raises(Exception, match=r"DATA_SOURCE_NOT_FOUND|aioproducer\.spark\.write") as refusal:
        spark.range(1).write.format("aioproducer").mode("append").save()
    assert "aioproducer" in str(refusal.value)

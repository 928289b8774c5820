"""The columns of a DataFrame that are written, and the DataFrames that are refused."""

from __future__ import annotations

import pytest
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructField, StructType

from aioproducer import ConfigurationError
from aioproducer.spark.options import read_options
from aioproducer.spark.shipping.columns import Layout

SERVER = {"kafka.bootstrap.servers": "localhost:9092"}


def layout(columns: list[tuple[str, DataType]], **options: str) -> Layout:
    """The layout of a DataFrame with these columns."""
    schema = StructType([StructField(name, kind) for name, kind in columns])
    return Layout.of(schema, read_options(SERVER | options))


@pytest.mark.parametrize("names", [("value", "Value"), ("value", "value")])
def test_two_columns_of_one_name(names: tuple[str, str]) -> None:
    """Two columns of one name are ambiguous: taking one of them would lose the other silently."""
    with pytest.raises(ConfigurationError, match="2 columns are named 'value'"):
        layout([(name, BinaryType()) for name in names], topic="t")


def test_columns_that_are_not_written_may_be_anything() -> None:
    """The option 'topic' takes precedence over the column, and headers may be left out."""
    columns: list[tuple[str, DataType]] = [
        ("value", BinaryType()), ("topic", IntegerType()), ("Topic", StringType()), ("headers", StringType()),
    ]  # fmt: skip
    assert layout(columns, topic="t", includeHeaders="false").places == {"value": 0}
    with pytest.raises(ConfigurationError, match="'headers' must be array"):
        layout(columns, topic="t")

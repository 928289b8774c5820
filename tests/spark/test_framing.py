"""`to_avro` with the prefix of a schema registry."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from aioproducer import ConfigurationError
from aioproducer.spark import framed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.kafka


def test_the_prefix_comes_before_each_value(spark: SparkSession) -> None:
    """Zero and the id, as serializers write them; null stays null. Spark and fastavro read the data behind it."""
    from pyspark.sql.functions import col, expr

    rows = [(b"\x02\x02a",), (b"\x04\x02b",), (None,)]
    frame = spark.createDataFrame(rows, "value binary").select(
        framed(col("value"), 0x01020304).alias("value")
    )
    found = [row.value for row in frame.collect()]
    assert [None if each is None else bytes(each) for each in found] == [
        b"\0\1\2\3\4\x02\x02a",
        b"\0\1\2\3\4\x04\x02b",
        None,
    ]
    schema: Any = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "n", "type": "int"}, {"name": "s", "type": "string"}],
    }
    behind = frame.select(expr("substring(value, 6)").alias("data")).collect()
    read = [fastavro.schemaless_reader(io.BytesIO(row.data), schema, None) for row in behind if row.data]
    assert read == [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}]


@pytest.mark.parametrize("wrong", [-1, 2**32, True, "1"])
def test_an_id_that_cannot_be(wrong: Any) -> None:
    """It is refused before Spark is asked for anything."""
    with pytest.raises(ConfigurationError, match="schema_id"):
        framed(wrong, wrong)

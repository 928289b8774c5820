"""The connection of Spark's worker to its executor is found in a real task, where its end is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from aioproducer.spark.shipping.whole_input import _is_closed, _number_of_input, whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def looked_at(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Whether the connection is found and open, while rows come and behind them."""
    seen = []
    for _ in whole(batches):
        number = _number_of_input()
        seen.append(number is not None and not _is_closed(number))
    number = _number_of_input()
    seen.append(number is not None and not _is_closed(number))
    yield pa.RecordBatch.from_pydict({"is_open": pa.array(seen)})


def test_the_connection_of_a_worker_is_found(spark: SparkSession) -> None:
    """Also in workers that are used again."""
    df = spark.range(0, 30_000, numPartitions=2)
    for _ in range(2):
        rows = df.mapInArrow(looked_at, "is_open boolean").collect()
        assert len(rows) >= 4
        assert all(row.is_open for row in rows)

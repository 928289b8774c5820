"""`foreach_batch()` into a real Kafka: streams that the format refuses, and streams on older versions of Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from aioproducer import ConfigurationError
from aioproducer.spark import foreach_batch, write
from tests.spark.clusters.page import program
from tests.spark.exactly_once.epochs import FILES, ROWS, counts, folder_of_epochs
from tests.spark.rows import committed, forget_last_commit, numbers, once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = [pytest.mark.kafka]

EXACTLY = {"delivery": "exactly-once"}
# The rows that the last epoch adds.
LAST = once(FILES * ROWS) - once((FILES - 1) * ROWS)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of files, each of which becomes an epoch."""
    return folder_of_epochs(tmp_path / "source")


def run(writing: DataStreamWriter, checkpoint: Path) -> None:
    """Write all input."""
    to_the_end = writing.outputMode("update").trigger(availableNow=True)
    to_the_end.option("checkpointLocation", str(checkpoint)).start().awaitTermination()


@pytest.mark.parametrize(("delivery", "again"), [("at-least-once", LAST), ("exactly-once", once(0))])
def test_an_epoch_that_is_repeated(
    spark: SparkSession,
    options: dict[str, str],
    source: Path,
    tmp_path: Path,
    delivery: str,
    again: Counter[int],
) -> None:
    """The query and the number identify the epoch: with exactly-once its repeat adds nothing."""
    for _ in range(2):
        df = counts(spark, source)
        run(foreach_batch(spark, df, options | {"delivery": delivery}), tmp_path / "checkpoint")
        forget_last_commit(tmp_path / "checkpoint")
    assert numbers(committed(options)) == once(FILES * ROWS) + again


def test_an_id_outlives_a_checkpoint(
    spark: SparkSession, options: dict[str, str], source: Path, tmp_path: Path
) -> None:
    """With a sink.id, in upper or lower case, a new checkpoint begins at epochs that the topic has already."""
    pinned = options | EXACTLY | {"Sink.ID": options["topic"]}
    run(foreach_batch(spark, counts(spark, source), pinned), tmp_path / "one")
    with pytest.raises(StreamingQueryException, match="checkpoint was reset"):
        run(foreach_batch(spark, counts(spark, source), pinned), tmp_path / "two")
    assert numbers(committed(options)) == once(FILES * ROWS)


def test_a_batch_function_of_the_users(
    spark: SparkSession, options: dict[str, str], source: Path, tmp_path: Path
) -> None:
    """`write()` with the name and the number of the epoch, as docs/spark.md shows it."""

    def write_batch(df: DataFrame, number: int) -> None:
        for _ in range(2):
            write(df, options | EXACTLY, epoch=(options["topic"], number))

    run(counts(spark, source).writeStream.foreachBatch(write_batch), tmp_path / "checkpoint")
    assert numbers(committed(options)) == once(FILES * ROWS)


def test_the_code_of_the_page(
    spark: SparkSession, options: dict[str, str], source: Path, tmp_path: Path
) -> None:
    """The code of docs/spark-clusters.md for older Sparks."""
    df = spark.readStream.format("text").load(str(source)).selectExpr("value as key", "value")
    code = program(2, options).replace("/data/", f"{tmp_path}/")
    exec(compile(code, "docs/spark-clusters.md", "exec"), {"spark": spark, "df": df})
    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()
    assert numbers(committed(options)) == once(FILES * ROWS)


def test_what_is_wrong_is_told_before_it_starts(
    spark: SparkSession, options: dict[str, str], source: Path
) -> None:
    """Options and columns are checked before the start."""
    df = counts(spark, source)
    with pytest.raises(ConfigurationError, match="did you mean 'topic'"):
        foreach_batch(spark, df, options | {"topicc": "x"})
    with pytest.raises(ConfigurationError, match="the column 'value' is missing"):
        foreach_batch(spark, df.select("key"), options)

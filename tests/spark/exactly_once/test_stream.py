"""Streams into a real Kafka: each epoch once under every repeat, or an error where that is impossible."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from tests.spark.exactly_once.epochs import FILES, ROWS, folder_of_epochs
from tests.spark.exactly_once.faulty import LostBehindSink
from tests.spark.rows import committed, forget_last_commit, numbers, once, write_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.kafka]

EXACTLY = {"delivery": "exactly-once"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of files, each of which becomes an epoch."""
    return folder_of_epochs(tmp_path / "source")


def stream(spark: SparkSession, source: Path) -> DataFrame:
    """A file an epoch, in two tasks."""
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(source))
    return lines.repartition(2, "value").selectExpr("value as key", "value")


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_stream(
    spark: SparkSession, options: dict[str, str], source: Path, tmp_path: Path, delivery: str
) -> None:
    """Every row of every epoch is there, and Spark has their number."""
    query = write_stream(stream(spark, source), options | {"delivery": delivery}, tmp_path / "checkpoint")
    assert numbers(committed(options)) == once(FILES * ROWS)
    assert [progress.sink.numOutputRows for progress in query.recentProgress] == [ROWS] * FILES


@pytest.mark.parametrize(("delivery", "copies"), [("at-least-once", 2), ("exactly-once", 1)])
def test_tasks_that_are_lost_behind_their_work(
    spark: SparkSession, options: dict[str, str], source: Path, tmp_path: Path, delivery: str, copies: int
) -> None:
    """Each task is repeated after its rows were written: exactly once finds its mark, at least once doubles them."""
    spark.dataSource.register(LostBehindSink)
    write_stream(
        stream(spark, source), options | {"delivery": delivery}, tmp_path / "checkpoint", "lost-behind"
    )
    found = numbers(committed(options))
    assert set(found.values()) == {copies}
    assert set(found) == set(range(FILES * ROWS))


def test_an_epoch_that_is_repeated_adds_nothing(
    spark: SparkSession, options: dict[str, str], source: Path, tmp_path: Path
) -> None:
    """The query restarts from a checkpoint without its last epoch."""
    for _ in range(2):
        write_stream(stream(spark, source), options | EXACTLY, tmp_path / "checkpoint")
        forget_last_commit(tmp_path / "checkpoint")
    write_stream(stream(spark, source), options | EXACTLY, tmp_path / "checkpoint")
    assert numbers(committed(options)) == once(FILES * ROWS)


def test_an_epoch_that_is_repeated_with_other_rows_is_refused(
    spark: SparkSession, options: dict[str, str], source: Path, tmp_path: Path
) -> None:
    """A new plan puts rows into other tasks: no row is lost or doubled, and the error has the reason."""
    write_stream(stream(spark, source), options | EXACTLY, tmp_path / "checkpoint")
    forget_last_commit(tmp_path / "checkpoint")
    other = stream(spark, source).selectExpr("key", "concat(value, cast(rand() as string)) as value")
    with pytest.raises(StreamingQueryException, match="not deterministic"):
        write_stream(other, options | EXACTLY, tmp_path / "checkpoint")
    assert numbers(committed(options)) == once(FILES * ROWS)


def test_a_checkpoint_that_was_set_back_is_refused(
    spark: SparkSession, options: dict[str, str], source: Path, tmp_path: Path
) -> None:
    """With a sink.id a new checkpoint begins at epoch 0 again, though the topic has later ones."""
    pinned = options | EXACTLY | {"sink.id": options["topic"]}
    write_stream(stream(spark, source), pinned, tmp_path / "one")
    with pytest.raises(StreamingQueryException, match="checkpoint was reset"):
        write_stream(stream(spark, source), pinned, tmp_path / "two")
    assert numbers(committed(options)) == once(FILES * ROWS)


def test_a_continuous_trigger_commits_nothing(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    """Spark requests no row then, and would count one epoch after the other as done: the sink refuses that."""
    df = spark.readStream.format("rate").load().selectExpr("cast(value as string) as value")
    writing = (
        df.writeStream.format("aioproducer").options(**options).option("checkpointLocation", str(tmp_path))
    )
    query = writing.trigger(continuous="1 second").start()
    # The query does not end, as Spark only logs the refusal; a sink without a refusal commits within this time.
    assert not query.awaitTermination(8)
    query.stop()
    assert list(tmp_path.glob("offsets/[0-9]*"))
    assert not list(tmp_path.glob("commits/[0-9]*"))

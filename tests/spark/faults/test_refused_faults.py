"""A replay by Spark in other tasks cannot be written exactly once: it is refused, and no row is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from aioproducer.spark import audit
from tests.spark.exactly_once.epochs import ROWS as ROWS_OF_AN_EPOCH
from tests.spark.exactly_once.epochs import folder_of_epochs
from tests.spark.rows import (
    committed,
    expected_of_a_stream,
    failing_late,
    forget_last_commit,
    marked_stream,
    numbers,
    write_stream,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aioproducer.spark.auditing import Verdict

pytestmark = [pytest.mark.kafka]

ROWS, EPOCHS, TASKS = 3_000, 4, 3
OTHER_ROWS = r"(?s)repeated with.*not deterministic"


def write_epoch(spark: SparkSession, options: dict[str, str], checkpoint: Path, tasks: int = TASKS) -> None:
    """Write the next epoch, or the one that the checkpoint does not have; this source gives one to each run."""
    write_stream(marked_stream(spark, ROWS, tasks, EPOCHS), options, checkpoint)


def verdict(spark: SparkSession, options: dict[str, str], epochs: int) -> Verdict:
    """The verdict on a topic that must have so many epochs."""
    expected = expected_of_a_stream(ROWS, epochs)
    return audit(spark, options["kafka.bootstrap.servers"], [options["topic"]], expected=expected)


def test_an_epoch_that_is_repeated_in_fewer_tasks_is_refused(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    """The source has another number of partitions now: no row is lost or doubled, and the old number works again."""
    options["delivery"] = "exactly-once"
    for _ in range(3):
        write_epoch(spark, options, tmp_path)
    forget_last_commit(tmp_path)
    with pytest.raises(StreamingQueryException, match=OTHER_ROWS):
        write_epoch(spark, options, tmp_path, TASKS - 1)
    assert verdict(spark, options, 3).problems == ()
    write_epoch(spark, options, tmp_path)
    write_epoch(spark, options, tmp_path)
    assert verdict(spark, options, 4).problems == ()


def test_an_epoch_that_is_repeated_in_more_tasks_is_refused(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    """Tasks that have committed the epoch before refuse; a new task has no mark, and may double its rows by then."""
    options["delivery"] = "exactly-once"
    for _ in range(3):
        write_epoch(spark, options, tmp_path)
    forget_last_commit(tmp_path)
    with pytest.raises(StreamingQueryException, match=OTHER_ROWS):
        write_epoch(spark, options, tmp_path, TASKS + 1)
    found = verdict(spark, options, 3)
    assert found.lost == 0
    assert found.doubled in {0, ROWS // (TASKS + 1)}


def test_an_epoch_that_was_committed_in_part_and_is_repeated_in_fewer_tasks(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    """None of the tasks has a mark: the driver finds that of the missing task, and reports it each time."""
    options["delivery"] = "exactly-once"
    checkpoint, signal = tmp_path / "checkpoint", tmp_path / "signal"
    folder = folder_of_epochs(tmp_path / "source", 1)
    lines = spark.readStream.format("text").load(str(folder)).selectExpr("value as key", "value")
    in_two = failing_late(lines.repartition(2, "value"), signal)
    writing = in_two.writeStream.format("aioproducer").options(**options)
    query = writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    until(lambda: committed(options))
    signal.touch()
    with pytest.raises(StreamingQueryException, match="a failure of the test"):
        query.awaitTermination()
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="which is not one of them"):
            write_stream(lines.repartition(1, "value"), options, checkpoint)
    signal.unlink()
    found = committed(options)
    assert set(numbers(found)) == set(range(ROWS_OF_AN_EPOCH))
    assert len(found) > ROWS_OF_AN_EPOCH


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds: it is polled, as brokers send no event."""
    while not condition():
        time.sleep(0.01)


def test_at_least_once_takes_them(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> None:
    """The control: the same rows are written again, in other tasks."""
    for _ in range(3):
        write_epoch(spark, options, tmp_path)
    forget_last_commit(tmp_path)
    write_epoch(spark, options, tmp_path, 2)
    found = verdict(spark, options, 3)
    assert (found.lost, found.doubled) == (0, ROWS)

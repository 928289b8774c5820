"""What cannot be written exactly once is refused, and says so: a replay in other tasks, and attempts that run at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from aioproducer.spark import audit
from tests.spark.rows import (
    committed,
    expected_of_a_stream,
    forget_last_commit,
    marked_stream,
    numbered,
    numbers,
    once,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aioproducer.spark.auditing import Verdict

pytestmark = [pytest.mark.kafka]

ROWS, EPOCHS, TASKS = 3_000, 4, 3
OTHER_ROWS = r"(?s)repeated with.*not deterministic"


def write_epoch(spark: SparkSession, options: dict[str, str], checkpoint: Path, tasks: int = TASKS) -> None:
    """The next one, or the one that the checkpoint does not know of; this source gives one to each run."""
    rows = marked_stream(spark, ROWS, tasks, EPOCHS)
    writing = rows.writeStream.format("aioproducer").options(**options)
    query = writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()


def verdict(spark: SparkSession, options: dict[str, str], epochs: int) -> Verdict:
    """On a topic that is to have so many epochs."""
    expected = expected_of_a_stream(ROWS, epochs)
    return audit(spark, options["kafka.bootstrap.servers"], [options["topic"]], expected=expected)


def test_an_epoch_that_is_repeated_in_fewer_tasks_is_refused(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    """The source has another number of partitions now: nothing is lost or doubled, and with the old number it goes on."""
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
    """The tasks that have committed it before refuse; one that is new has no mark, and may have doubled its rows by then."""
    options["delivery"] = "exactly-once"
    for _ in range(3):
        write_epoch(spark, options, tmp_path)
    forget_last_commit(tmp_path)
    with pytest.raises(StreamingQueryException, match=OTHER_ROWS):
        write_epoch(spark, options, tmp_path, TASKS + 1)
    found = verdict(spark, options, 3)
    assert found.lost == 0
    assert found.doubled in {0, ROWS // (TASKS + 1)}


def test_at_least_once_takes_them(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> None:
    """The control: the same is written again, in other tasks."""
    for _ in range(3):
        write_epoch(spark, options, tmp_path)
    forget_last_commit(tmp_path)
    write_epoch(spark, options, tmp_path, 2)
    found = verdict(spark, options, 3)
    assert (found.lost, found.doubled) == (0, ROWS)


# --------------------------------------------------------------------------------------- speculation
@pytest.fixture
def speculative(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that says that slow tasks may be attempted a second time meanwhile."""
    session: Any = spark.newSession()
    # Else Spark wants to be told before it starts.
    session.conf.set("spark.sql.legacy.setCommandRejectsSparkCoreConfs", "false")
    session.conf.set("spark.speculation", "true")
    yield session
    for query in session.streams.active:
        query.stop()


def test_speculation_is_refused_for_batches(speculative: SparkSession, options: dict[str, str]) -> None:
    """By the tasks, before they write."""
    writing = numbered(speculative, 1_000).write.format("aioproducer").options(**options)
    with pytest.raises(PySparkException, match=r"exactly-once needs spark\.speculation=false"):
        writing.option("delivery", "exactly-once").mode("append").save()
    assert committed(options) == []


def test_speculation_is_refused_for_streams(
    speculative: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    """Likewise."""
    with pytest.raises(StreamingQueryException, match=r"exactly-once needs spark\.speculation=false"):
        write_epoch(speculative, options | {"delivery": "exactly-once"}, tmp_path)
    assert committed(options) == []


def test_speculation_is_allowed_at_least_once(
    speculative: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    """Batches and streams: whoever allows that rows are there twice may write them twice."""
    numbered(speculative, 1_000).write.format("aioproducer").options(**options).mode("append").save()
    assert numbers(committed(options)) == once(1_000)
    write_epoch(speculative, options, tmp_path)
    assert len(committed(options)) == 1_000 + ROWS

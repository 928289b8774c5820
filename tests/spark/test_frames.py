"""`write()`, which needs no data source: it also works on Spark versions without any in Python."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from aioproducer import list_transactions
from aioproducer.spark import write
from tests.spark.rows import committed, failing, numbered, numbers, once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka]

EXACTLY = {"delivery": "exactly-once"}
COUNT = 5_000


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_write_tells_what_it_wrote(spark: SparkSession, options: dict[str, str], delivery: str) -> None:
    """The result has rows, bytes, and offsets."""
    written = write(numbered(spark, COUNT), options | {"delivery": delivery})
    records = committed(options)
    assert numbers(records) == once(COUNT)
    assert written.rows == COUNT
    assert written.bytes == sum(len(record.key or b"") + len(record.value or b"") for record in records)
    assert set(written.places) == {(options["topic"], record.partition) for record in records}
    assert sum(written.places.values()) == COUNT


def test_nothing_of_a_write_that_fails_is_visible(spark: SparkSession, options: dict[str, str]) -> None:
    """Later records are not hidden either."""
    with pytest.raises(PySparkException, match="a failure of the test"):
        write(failing(numbered(spark, COUNT), attempts=9), options | EXACTLY)
    assert committed(options) == []
    write(numbered(spark, 10), options | EXACTLY)
    assert numbers(committed(options)) == once(10)


@pytest.mark.parametrize("dies", [False, True])
def test_a_task_that_is_repeated_is_there_once(
    spark: SparkSession, options: dict[str, str], dies: bool
) -> None:
    """The task's first two attempts had handed out all rows: those are not visible, in a job or in an epoch."""
    rows = failing(numbered(spark, COUNT), attempts=2, dies=dies)
    write(rows, options | EXACTLY)
    write(rows, options | EXACTLY, epoch=(f"of {options['topic']}", 0))
    assert numbers(committed(options)) == once(COUNT) + once(COUNT)


def test_a_write_with_an_id_or_an_epoch_is_done_once(spark: SparkSession, options: dict[str, str]) -> None:
    """The write.id identifies the job, name and number the epoch."""
    for _ in range(2):
        write(numbered(spark, COUNT), options | EXACTLY | {"write.id": options["topic"]})
    assert numbers(committed(options)) == once(COUNT)
    for epoch in (0, 1, 1):
        write(numbered(spark, COUNT), options | EXACTLY, epoch=(f"of {options['topic']}", epoch))
    assert set(numbers(committed(options)).values()) == {3}


def test_the_driver_tries_whether_an_epochs_ids_may_be_used(
    spark: SparkSession, options: dict[str, str]
) -> None:
    """The driver tries an id that no task has: a missing right to the ids is reported before the tasks start."""
    name = f"of {options['topic']}"
    write(numbered(spark, 10), options | EXACTLY, epoch=(name, 0))
    prefix, servers = f"aioproducer-spark-{name}-", options["kafka.bootstrap.servers"]
    ids = {one.transactional_id for one in asyncio.run(list_transactions(prefix, servers))}
    assert f"{prefix}driver" in ids
    assert f"{prefix}0" in ids


def test_values_and_keys_of_columns(spark: SparkSession, options: dict[str, str]) -> None:
    """In JSON, with times, nested columns and nulls; on every Spark."""
    df = spark.sql(
        "select id, timestamp_micros(id) as at, map('n', array(id, null)) as m, if(id = 0, null, 'x') as text from range(2)"
    )
    written = write(df, options | {"valueFormat": "json", "keyFormat": "json", "keyColumns": "ID"})
    assert (written.rows, written.tasks > 0, written.batches > 0) == (2, True, True)
    assert {record.key: record.value for record in committed(options)} == {
        b'{"id":0}': b'{"id":0,"at":"1970-01-01T00:00:00.000000Z","m":{"n":[0,null]}}',
        b'{"id":1}': b'{"id":1,"at":"1970-01-01T00:00:00.000001Z","m":{"n":[1,null]},"text":"x"}',
    }

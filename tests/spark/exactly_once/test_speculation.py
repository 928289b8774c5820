"""Attempts of one task at the same time, by Spark's speculation: exactly once refuses them, at least once does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from tests.spark.rows import committed, marked_stream, numbered, numbers, once, write_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka]

EXACTLY = {"delivery": "exactly-once"}
ROWS = 3_000


@pytest.fixture
def speculative(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with speculation: slow tasks get a second attempt."""
    session: Any = spark.newSession()
    # By default Spark refuses this setting after its start.
    session.conf.set("spark.sql.legacy.setCommandRejectsSparkCoreConfs", "false")
    session.conf.set("spark.speculation", "true")
    yield session
    for query in session.streams.active:
        query.stop()


def test_speculation_is_refused_for_batches(speculative: SparkSession, options: dict[str, str]) -> None:
    """The tasks refuse before they write."""
    writing = numbered(speculative, 1_000).write.format("aioproducer").options(**options)
    with pytest.raises(PySparkException, match=r"exactly-once requires spark\.speculation=false"):
        writing.options(**EXACTLY).mode("append").save()
    assert committed(options) == []


def test_speculation_is_refused_for_streams(
    speculative: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    """The tasks refuse before they write."""
    with pytest.raises(StreamingQueryException, match=r"exactly-once requires spark\.speculation=false"):
        write_stream(marked_stream(speculative, ROWS, 3, 1), options | EXACTLY, tmp_path)
    assert committed(options) == []


def test_speculation_is_allowed_at_least_once(
    speculative: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    """Batches and streams with at least once accept speculation, as their rows may be doubled."""
    numbered(speculative, 1_000).write.format("aioproducer").options(**options).mode("append").save()
    assert numbers(committed(options)) == once(1_000)
    write_stream(marked_stream(speculative, ROWS, 3, 1), options, tmp_path)
    assert len(committed(options)) == 1_000 + ROWS

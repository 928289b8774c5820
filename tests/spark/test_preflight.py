"""The driver's errors before any task starts, without a Spark."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aioproducer import ConfigurationError
from aioproducer.spark import foreach_batch, write
from aioproducer.spark.interpreter import name_another_python, warn_of_another_python
from aioproducer.spark.preflight import check_kafka
from aioproducer.spark.source import KafkaSink
from aioproducer.testing import EmbeddedKafka
from tests.spark.exactly_once.attempts import SCHEMA, TOPIC, options_for


async def test_a_missing_right_is_not_a_missing_topic(kafka: EmbeddedKafka) -> None:
    """Each error has its own advice, and not that of the other."""
    options = options_for(kafka)
    await asyncio.to_thread(check_kafka, options)
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Metadata", topic=TOPIC, times=None)
    with pytest.raises(ConfigurationError, match=r"may not write topic 'orders': grant it WRITE") as caught:
        await asyncio.to_thread(check_kafka, options)
    assert "create" not in str(caught.value)
    kafka.faults.heal()
    with pytest.raises(
        ConfigurationError, match=r"topic 'missing' does not exist: create it first"
    ) as caught:
        await asyncio.to_thread(check_kafka, options_for(kafka, topic="missing"))
    assert "grant" not in str(caught.value)


KAFKA_NOT_ASKED = {"kafka.bootstrap.servers": "localhost:1", "topic": TOPIC, "delivery": "exactly-once"}


def test_an_id_of_the_other_kind_is_refused() -> None:
    """A batch with a sink.id would be written again on each run, and a write.id does not identify a stream."""
    frame: Any = SimpleNamespace(schema=SCHEMA)
    for_streams = KAFKA_NOT_ASKED | {"sink.id": "orders"}
    for_batches = KAFKA_NOT_ASKED | {"write.id": "orders"}
    with pytest.raises(ConfigurationError, match=r"sink\.id is for streams: .* 'write\.id'"):
        KafkaSink(for_streams).writer(SCHEMA, overwrite=False)
    with pytest.raises(ConfigurationError, match=r"sink\.id is for streams: .* epoch="):
        write(frame, for_streams)
    with pytest.raises(ConfigurationError, match=r"write\.id is for batches: .* 'sink\.id'"):
        KafkaSink(for_batches).streamWriter(SCHEMA, overwrite=False)
    with pytest.raises(ConfigurationError, match=r"write\.id is for batches"):
        write(frame, for_batches, epoch=("orders", 0))
    with pytest.raises(ConfigurationError, match=r"write\.id is for batches"):
        foreach_batch(SimpleNamespace(), frame, for_batches)  # type: ignore[arg-type]


def test_an_epoch_that_cannot_be_kept_is_refused() -> None:
    """At least once would write it on each run, and two names do not identify it."""
    frame: Any = SimpleNamespace(schema=SCHEMA)
    with pytest.raises(ConfigurationError, match="requires delivery=exactly-once"):
        write(frame, KAFKA_NOT_ASKED | {"delivery": "at-least-once"}, epoch=("orders", 0))
    with pytest.raises(ConfigurationError, match="both name the work"):
        write(frame, KAFKA_NOT_ASKED | {"sink.id": "others"}, epoch=("orders", 0))


def test_another_python_is_named(tmp_path: Path) -> None:
    """The path decides: a link elsewhere is another Python, this program's own path is not."""
    own = Path(sys.executable)
    assert name_another_python(str(own), sys.executable) is None
    other = tmp_path / "python3"
    other.symlink_to(own.resolve())
    assert name_another_python(str(other), sys.executable) == str(other)
    assert "does not exist" in (name_another_python(str(tmp_path / "gone"), sys.executable) or "")


def session(master: str, python: str) -> Any:
    """A session of Spark with the methods that the check calls."""
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, pythonExec=python))


def test_another_python_is_told_where_the_workers_are_on_this_machine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The error names the setting; on a cluster other paths are expected, and Spark Connect does not show them."""
    other = tmp_path / "python3"
    other.symlink_to(Path(sys.executable).resolve())
    connect: Any = SimpleNamespace()
    for quiet in (
        session("local[2]", sys.executable),
        session("spark://host:7077", str(other)),
        connect,
    ):
        warn_of_another_python(quiet)
    assert caplog.messages == []
    warn_of_another_python(session("local[2]", str(other)))
    (line,) = caplog.messages
    assert line.startswith(f"Spark's workers run {other}, and this program runs {sys.executable}")
    assert f"set PYSPARK_PYTHON={sys.executable} before Spark starts" in line


async def test_a_missing_topic_for_dead_letters_is_told_as_well(kafka: EmbeddedKafka) -> None:
    """The error comes before the first bad row."""
    options = options_for(kafka, **{"on.error": "dead"})
    with pytest.raises(ConfigurationError, match=r"topic 'dead' does not exist: create it first"):
        await asyncio.to_thread(check_kafka, options)


async def test_a_missing_topic_for_marks_is_told_as_well(kafka: EmbeddedKafka) -> None:
    """The error comes before each task has written all of its rows in vain; a missing right to write is no error."""
    options = options_for(kafka, **{"marker.topic": "marks"})
    with pytest.raises(ConfigurationError, match=r"topic 'marks' does not exist: create it first"):
        await asyncio.to_thread(check_kafka, options)
    kafka.create_topic("marks", 1)
    await asyncio.to_thread(check_kafka, options)
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Metadata", topic="marks", times=None)
    await asyncio.to_thread(check_kafka, options)

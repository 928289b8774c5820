"""What the driver says before any task starts, without a Spark."""

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
    """Each is told with what to do about it, and without the other."""
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
    """A batch with a sink.id would be written again each time that it is run, and a stream would not be known by its write.id."""
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
    """At least once it would be written each time, and with two names it is not certain by which it is known."""
    frame: Any = SimpleNamespace(schema=SCHEMA)
    with pytest.raises(ConfigurationError, match="requires delivery=exactly-once"):
        write(frame, KAFKA_NOT_ASKED | {"delivery": "at-least-once"}, epoch=("orders", 0))
    with pytest.raises(ConfigurationError, match="both name the work"):
        write(frame, KAFKA_NOT_ASKED | {"sink.id": "others"}, epoch=("orders", 0))


def test_another_python_is_named(tmp_path: Path) -> None:
    """By its path; the own one is none, under whatever name of its folder."""
    own = Path(sys.executable)
    assert name_another_python(str(own), sys.executable) is None
    other = tmp_path / "python3"
    other.symlink_to(own.resolve())
    assert name_another_python(str(other), sys.executable) == str(other)
    assert "does not exist" in (name_another_python(str(tmp_path / "gone"), sys.executable) or "")


def session(master: str, python: str) -> Any:
    """What is asked of a session of Spark."""
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, pythonExec=python))


def test_another_python_is_told_where_the_workers_are_on_this_machine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With what to set; on a cluster other paths are what one expects, and Spark Connect does not tell."""
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
    (told,) = caplog.messages
    assert told.startswith(f"Spark's workers run {other}, and this program runs {sys.executable}")
    assert f"set PYSPARK_PYTHON={sys.executable} before Spark starts" in told


async def test_a_missing_topic_for_dead_letters_is_told_as_well(kafka: EmbeddedKafka) -> None:
    """Before the first bad row comes."""
    options = options_for(kafka, **{"on.error": "dead"})
    with pytest.raises(ConfigurationError, match=r"topic 'dead' does not exist: create it first"):
        await asyncio.to_thread(check_kafka, options)


async def test_a_missing_topic_for_marks_is_told_as_well(kafka: EmbeddedKafka) -> None:
    """Before each task has written all of its rows for nothing; that nothing may be written there does not matter."""
    options = options_for(kafka, **{"marker.topic": "marks"})
    with pytest.raises(ConfigurationError, match=r"topic 'marks' does not exist: create it first"):
        await asyncio.to_thread(check_kafka, options)
    kafka.create_topic("marks", 1)
    await asyncio.to_thread(check_kafka, options)
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Metadata", topic="marks", times=None)
    await asyncio.to_thread(check_kafka, options)

"""State that a process keeps from task to task."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator

import attrs
import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from aioproducer.spark.exactly_once.epochs import write_epoch
from aioproducer.spark.options import SinkOptions
from aioproducer.spark.shipping.columns import Layout
from aioproducer.spark.shipping.worker import this_worker
from aioproducer.testing import EmbeddedKafka
from tests.spark.exactly_once.attempts import TOPIC, forgotten, options_for

PROGRAM = """
import gc
from aioproducer.spark.shipping.worker import this_worker
this_worker()
print(gc.get_freeze_count())
"""


@pytest.mark.parametrize("is_sparks", [True, False])
def test_modules_are_not_looked_through_after_each_task(is_sparks: bool) -> None:
    """Modules are frozen where Spark collects garbage; a program that only calls `write()` decides for itself."""
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_REUSE_WORKER"}
    if is_sparks:
        environment["SPARK_REUSE_WORKER"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    spared = int(done.stdout)
    assert spared > 10_000 if is_sparks else spared == 0


SCHEMA = StructType([StructField("value", BinaryType()), StructField("topic", StringType())])


def batch(value: bytes, topic: str) -> pa.RecordBatch:
    """One row that names its topic."""
    return pa.RecordBatch.from_pydict({"value": [value], "topic": [topic]})


async def test_a_topic_that_idles_out_between_two_rows_of_a_task(kafka: EmbeddedKafka) -> None:
    """An earlier task in this process has written to the topic: the next row for it does not fence the task."""
    kafka.create_topic("others", 1)
    options = attrs.evolve(options_for(kafka, **{"marker.topic": TOPIC}), topic=None)
    layout = Layout.of(SCHEMA, options)
    first = iter([batch(b"a", TOPIC), batch(b"b", "others")])
    await asyncio.to_thread(write_epoch, first, layout, options, ("query", 0), 0)

    def slow() -> Iterator[pa.RecordBatch]:
        yield batch(b"c", TOPIC)
        this_worker().run(forgotten_topic("others", options))
        yield batch(b"d", "others")

    await asyncio.to_thread(write_epoch, slow(), layout, options, ("query", 0), 1)
    found = {topic: [record.value for record in kafka.records(topic)] for topic in (TOPIC, "others")}
    assert found == {TOPIC: [b"a", b"c"], "others": [b"b", b"d"]}
    await forgotten(options)


async def forgotten_topic(topic: str, options: SinkOptions) -> None:
    """Five minutes without a write to the topic, for the producer of this process."""
    engine = this_worker()._producers[options.producer]._engine
    assert engine is not None
    engine.cluster._drop_idle(engine.loop.time() + options.producer.metadata_max_idle_ms / 1000 + 1)
    assert engine.view.topic(topic) is None

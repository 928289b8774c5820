"""Attempts of tasks without a Spark: a test calls the code of a worker, against an embedded Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from aioproducer import TransactionHandle, list_transactions
from aioproducer.spark.exactly_once.epochs import write_epoch
from aioproducer.spark.exactly_once.jobs import Job, LeftOpen, write_and_leave_open
from aioproducer.spark.facts import TaskFacts
from aioproducer.spark.options import LEDGER, SinkOptions, read_options
from aioproducer.spark.shipping.columns import Layout
from aioproducer.spark.shipping.shipment import Written
from aioproducer.spark.shipping.tasks import write_at_least_once
from aioproducer.spark.shipping.worker import this_worker
from aioproducer.testing import EmbeddedKafka

SCHEMA: Final = StructType([StructField("value", BinaryType())])
TOPIC: Final = "orders"
WAYS: Final = ("at-least-once", "epoch", "job")


def delivery_of(way: str) -> str:
    """The option of this way to write."""
    return "at-least-once" if way == "at-least-once" else "exactly-once"


def options_for(kafka: EmbeddedKafka, **more: str) -> SinkOptions:
    return read_options(
        {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "topic": TOPIC,
            "delivery": "exactly-once",
            **more,
        }
    )


def create_ledger(kafka: EmbeddedKafka) -> None:
    """The topic of the marks, which the checks of a driver create."""
    kafka.create_topic(LEDGER, 16, cleanup_policy="compact")


def rows(*values: bytes) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})])


async def written(job: Job, attempt: int, *values: bytes, partition: int = 0) -> LeftOpen:
    """The open transaction of an attempt."""
    task = TaskFacts(partition, attempt, None, None, speculation=False)
    layout = Layout.of(SCHEMA, job.options)
    return await asyncio.to_thread(write_and_leave_open, rows(*values), layout, job, task)


def handles(*left: LeftOpen) -> list[TransactionHandle | None]:
    """The handles that the driver gets."""
    return [one.handle for one in left]


async def forgotten(options: SinkOptions) -> None:
    """The worker of this process drops its producer: nothing of it reaches the next test."""
    await asyncio.to_thread(lambda: this_worker().run(this_worker().forget(options.producer)))


def seen(kafka: EmbeddedKafka) -> list[bytes | None]:
    return [record.value for record in kafka.records(TOPIC)]


async def epoch_written(
    options: SinkOptions,
    epoch: int,
    *values: bytes,
    partition: int = 0,
    name: str = "query",
    is_query: bool = False,
    speculation: bool = False,
) -> Written:
    """The commit message of a task of a stream."""
    layout = Layout.of(SCHEMA, options)
    task = (name, partition)
    more = {"is_query": is_query, "speculation": speculation}
    return await asyncio.to_thread(write_epoch, rows(*values), layout, options, task, epoch, **more)


async def states(kafka: EmbeddedKafka) -> set[str]:
    return {one.state for one in await list_transactions("aioproducer-spark-", kafka.bootstrap_servers)}


async def written_by_a_task(
    way: str, batches: Iterator[pa.RecordBatch], layout: Layout, options: SinkOptions
) -> Written:
    """Write as a task of Spark does; at the end the open transaction is committed."""
    if way == "at-least-once":
        return await asyncio.to_thread(write_at_least_once, batches, layout, options)
    if way == "epoch":
        return await asyncio.to_thread(write_epoch, batches, layout, options, ("query", 0), 0)
    job = await asyncio.to_thread(Job.of(options).begin)
    task = TaskFacts(0, 1, None, None, speculation=False)
    left = await asyncio.to_thread(write_and_leave_open, batches, layout, job, task)
    await asyncio.to_thread(job.commit, [left.handle])
    return left.written

"""DataFrames written through `mapInArrow`: for Sparks without data sources in Python, and inside of `foreachBatch`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import attrs
import pyarrow as pa

from aioproducer import ConfigurationError, StateError
from aioproducer.spark.exactly_once.absent import may_be_repeated, require_no_absent_tasks
from aioproducer.spark.exactly_once.epochs import write_epoch
from aioproducer.spark.exactly_once.jobs import Job, LeftOpen, write_and_leave_open
from aioproducer.spark.facts import QUERY, RUN, TaskFacts
from aioproducer.spark.interpreter import warn_of_another_python
from aioproducer.spark.options import SinkOptions, read_options, require_own_id
from aioproducer.spark.preflight import check_kafka, check_kafka_once
from aioproducer.spark.progress import EpochProgress, Progress
from aioproducer.spark.schemas import layout_of
from aioproducer.spark.shipping.columns import Layout
from aioproducer.spark.shipping.shipment import Written
from aioproducer.spark.shipping.summary import tell
from aioproducer.spark.shipping.tasks import write_at_least_once
from aioproducer.spark.shipping.worker import this_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    class EpochWriter(DataStreamWriter):
        """A `DataStreamWriter` with the numbers of the epochs that it has written."""

        progress: Progress


__all__ = ["foreach_batch", "write"]

RESULT: Final = "result string"
NAMELESS: Final = "delivery=exactly-once in foreachBatch requires the option 'sink.id' here"


@attrs.frozen
class Plan:
    """The instructions of a task: how to write, and the name of its work if it is to be done exactly once."""

    options: SinkOptions
    layout: Layout
    job: Job | None = None
    # Name and number of the epoch, in a stream.
    epoch: tuple[str, int] | None = None

    def done(self, batches: Iterator[Any]) -> LeftOpen:
        """Write the rows of the current task."""
        left = self._written(batches)
        left.written.aborted_attempts += TaskFacts.failed_attempts()
        return left

    def _written(self, batches: Iterator[Any]) -> LeftOpen:
        if not self.options.is_exactly_once:
            return LeftOpen(write_at_least_once(batches, self.layout, self.options))
        facts = TaskFacts.here()
        if self.job is not None:
            return write_and_leave_open(batches, self.layout, self.job, facts)
        assert self.epoch is not None  # noqa: S101  # one of the two is set
        name, number = self.epoch
        task = (name, facts.partition)
        return LeftOpen(
            write_epoch(batches, self.layout, self.options, task, number, speculation=facts.speculation)
        )


def write(df: DataFrame, options: Mapping[str, str], *, epoch: tuple[str, int] | None = None) -> Written:
    """Write a DataFrame into Kafka, with the options of `format("aioproducer")`; on Spark 3.5 and later.

    With delivery=exactly-once all rows become visible together, or none. `epoch` is for `foreachBatch`: the permanent
    name of the query, and the number of the epoch. Each task's rows then become visible once, also when the task is
    repeated.
    """
    try:
        read = read_options(_as_text(options))
    finally:
        del options  # No frame of a traceback keeps a secret.
    require_own_id(read, is_stream=epoch is not None)
    if epoch is not None and not read.is_exactly_once:
        raise ConfigurationError(
            "epoch= requires delivery=exactly-once: with at-least-once, repeated rows are written again"
        )
    if epoch is not None and read.sink_id not in (None, epoch[0]):
        raise ConfigurationError("epoch= and the option 'sink.id' both name the work: remove one of them")
    return _written(df, read, layout_of(df.schema, read, is_stream=epoch is not None), epoch)


def _written(df: DataFrame, read: SinkOptions, layout: Layout, epoch: tuple[str, int] | None) -> Written:
    warn_of_another_python(df.sparkSession)
    if epoch is None:
        check_kafka(read)
    else:
        check_kafka_once(read, epoch[0])
    if not read.is_exactly_once:
        return _told("wrote", _run(df, Plan(read, layout)))
    return _write_job(df, read, layout) if epoch is None else _write_once(df, read, layout, epoch)


def _write_once(df: DataFrame, options: SinkOptions, layout: Layout, epoch: tuple[str, int]) -> Written:
    repeated = may_be_repeated(epoch[0], _property_of(df.sparkSession, RUN), epoch[1])
    results = _run(df, Plan(options, layout, epoch=epoch))
    if repeated:
        this_worker().run(require_no_absent_tasks(options, *epoch, tasks=len(results)))
    return _told("wrote", results)


def _write_job(df: DataFrame, options: SinkOptions, layout: Layout) -> Written:
    job = Job.of(options).begin()
    try:
        results = _run(df, Plan(options, layout, job=job))
    except BaseException:
        job.abort()
        raise
    began = time.monotonic()
    job.commit([result.handle for result in results])
    return _told("committed", results, commit_seconds=time.monotonic() - began)


def _run(df: DataFrame, plan: Plan) -> list[LeftOpen]:
    rows = df.mapInArrow(partial(_task, plan), RESULT).collect()
    return [LeftOpen.of_text(row[0]) for row in rows]


def _task(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"result": pa.array([plan.done(batches).as_text()])})


def _told(what: str, results: list[LeftOpen], *, commit_seconds: float = 0.0) -> Written:
    """The sum of the results, after logging it."""
    total = Written(commit_seconds=commit_seconds)
    for result in results:
        total.add(result.written)
    total.tasks = len(results)
    tell(what, total, len(results))
    return total


def foreach_batch(spark: SparkSession, df: DataFrame, options: Mapping[str, str]) -> EpochWriter:
    """A `writeStream` of this DataFrame to Kafka, for modes that the format does not support: outputMode("update").

    Set trigger, output mode and checkpoint on the result, and start it. Its `progress` has the numbers of the epochs.
    """
    try:
        read = read_options(_as_text(options))
    finally:
        del options  # No frame of a traceback keeps a secret.
    require_own_id(read, is_stream=True)
    layout_of(df.schema, read, is_stream=True)
    if read.is_exactly_once and read.sink_id is None and not _tells_queries(spark):
        raise ConfigurationError(f"{NAMELESS}: Spark Connect does not pass the id of the query")
    progress = Progress()
    writing = cast("EpochWriter", df.writeStream.foreachBatch(partial(_write_epoch, read, progress)))
    writing.progress = progress
    return writing


def _write_epoch(read: SinkOptions, progress: Progress, df: DataFrame, number: int) -> None:
    """Called by Spark for each epoch; with Spark Connect in another process, without the first session."""
    query = _property_of(df.sparkSession, QUERY)
    name = read.sink_id or query
    if name is None and read.is_exactly_once:
        raise StateError(f"{NAMELESS}: Spark does not pass the id of the query")
    try:
        layout = layout_of(df.schema, read, is_stream=True)
        written = _written(df, read, layout, None if name is None else (name, number))
    except BaseException:
        progress.note_failure()
        raise
    progress.note(EpochProgress.of(written, query, number))


def _as_text(options: Mapping[str, str]) -> dict[str, str]:
    return {str(name): str(value) for name, value in options.items()}


def _tells_queries(spark: SparkSession) -> bool:
    # Sessions of Spark Connect have no context.
    return hasattr(spark, "sparkContext")


def _property_of(spark: SparkSession, name: str) -> str | None:
    """A property that Spark has set for the query of this batch."""
    return spark.sparkContext.getLocalProperty(name) if _tells_queries(spark) else None

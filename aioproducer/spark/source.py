"""The data source that Spark finds by the name 'aioproducer': it checks on the driver, and creates the writers of the tasks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from aioproducer import ConfigurationError, TransactionHandle
from aioproducer.spark.exactly_once.absent import may_be_repeated, require_no_absent_tasks
from aioproducer.spark.exactly_once.epochs import write_epoch
from aioproducer.spark.exactly_once.jobs import Job, write_and_leave_open
from aioproducer.spark.facts import TaskFacts
from aioproducer.spark.options import SinkOptions, read_options, require_own_id
from aioproducer.spark.preflight import check_kafka, check_kafka_once
from aioproducer.spark.schemas import layout_of
from aioproducer.spark.shipping.columns import Layout
from aioproducer.spark.shipping.shipment import Written
from aioproducer.spark.shipping.summary import tell
from aioproducer.spark.shipping.tasks import write_at_least_once
from aioproducer.spark.shipping.worker import this_worker

__all__ = ["KafkaSink"]

PRINTS_LOCALS: Final = "SPARK_TRACEBACK_WITH_LOCALS"
WRITES_ONLY: Final = "'aioproducer' only writes: read from Kafka with spark.read.format('kafka')"


class Work(NamedTuple):
    """The work of a task of a stream: its name, and the run of its query."""

    name: str
    run: str | None


class Message(WriterCommitMessage):
    """The message of a task to the driver after all of its rows are written."""

    def __init__(
        self,
        written: Written,
        handle: TransactionHandle | None = None,
        work: Work | None = None,
    ) -> None:
        self.written = written
        written.aborted_attempts += TaskFacts.failed_attempts()
        self.handle = handle
        self.work = work


class KafkaSink(DataSource):
    """`df.write.format("aioproducer")`, and `df.writeStream` alike."""

    def __init__(self, options: dict[str, str]) -> None:
        # The options are in frames of Spark itself, in the driver's process in which this object is made: a failure
        # there must not print them, even if Spark is configured to print locals (…udf.tracebackWithLocals.enabled, for
        # tasks).
        os.environ.pop(PRINTS_LOCALS, None)
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "aioproducer"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise ConfigurationError("a topic supports appending only: write with .mode('append')")
        options, layout = self._checked(schema, is_stream=False)
        check_kafka(options)
        if not options.is_exactly_once:
            return BatchWriter(options, layout)
        return JobWriter(layout, Job.of(options).begin())

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802  # Spark's
        options, layout = self._checked(schema, is_stream=True)
        check_kafka_once(options, options.sink_id)
        return StreamWriter(options, layout)

    def _checked(self, schema: StructType, *, is_stream: bool) -> tuple[SinkOptions, Layout]:
        options = read_options(self.options)
        require_own_id(options, is_stream=is_stream)
        return options, layout_of(schema, options, is_stream=is_stream)

    def schema(self) -> NoReturn:
        raise ConfigurationError(WRITES_ONLY)

    def reader(self, schema: StructType) -> NoReturn:
        raise ConfigurationError(WRITES_ONLY)

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802  # Spark's
        raise ConfigurationError(WRITES_ONLY)


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of one job."""

    def __init__(self, options: SinkOptions, layout: Layout) -> None:
        self._options = options
        self._layout = layout

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return Message(write_at_least_once(iterator, self._layout, self._options))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        tell("wrote", _added_up(messages), len(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        tell("failed after it wrote", _added_up(messages), len(messages))


class JobWriter(DataSourceArrowWriter):
    """Writes all rows of one job, or none."""

    def __init__(self, layout: Layout, job: Job) -> None:
        self._layout = layout
        self._job = job

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        left = write_and_leave_open(iterator, self._layout, self._job, TaskFacts.here())
        return Message(left.written, left.handle)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        began = time.monotonic()
        ours = [one for one in messages if isinstance(one, Message)]
        self._job.commit([one.handle for one in ours])
        written = _added_up(messages)
        written.commit_seconds = time.monotonic() - began
        tell("committed", written, len(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._job.abort([one.handle for one in messages if isinstance(one, Message)])
        tell("aborted", _added_up(messages), len(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of one micro-batch; each micro-batch has its own."""

    def __init__(self, options: SinkOptions, layout: Layout) -> None:
        self._options = options
        self._layout = layout

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        if not self._options.is_exactly_once:
            return Message(write_at_least_once(iterator, self._layout, self._options))
        facts = TaskFacts.here()
        name, epoch = facts.sink_and_epoch(self._options.sink_id)
        written = write_epoch(
            iterator,
            self._layout,
            self._options,
            (name, facts.partition),
            epoch,
            is_query=self._options.sink_id is None,
            speculation=facts.speculation,
        )
        return Message(written, work=Work(name, facts.run))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's
        if None in messages:
            # Spark starts such a query, and runs it without end and without writing a row.
            raise ConfigurationError(
                "trigger(continuous=…) is not supported: use processingTime or availableNow"
            )
        work = next((one.work for one in messages if isinstance(one, Message)), None)
        if work is not None and may_be_repeated(*work, batchId):
            this_worker().run(require_no_absent_tasks(self._options, work.name, batchId, tasks=len(messages)))
        tell(f"epoch {batchId}: wrote", _added_up(messages), len(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's
        tell(f"epoch {batchId}: failed after it wrote", _added_up(messages), len(messages))


def _added_up(messages: Sequence[WriterCommitMessage | None]) -> Written:
    total = Written()
    for message in messages:
        if isinstance(message, Message):
            total.add(message.written)
    return total

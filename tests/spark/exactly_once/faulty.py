"""Sinks whose tasks fail where no user code can: after their commits, or before the driver's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from aioproducer.spark.source import KafkaSink


def first_time(folder: str, name: str) -> bool:
    """True on the first call in all processes that have this folder."""
    try:
        (Path(folder) / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class _FailsBehind:
    """A writer that loses the first attempt of each task after all of its work."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        message: WriterCommitMessage = self.writer.write(iterator)
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            os._exit(1)
        return message

    def commit(self, *args: Any) -> None:
        self.writer.commit(*args)

    def abort(self, *args: Any) -> None:
        self.writer.abort(*args)


class LostBehindSink(KafkaSink):
    """`lost-behind`: the worker process of each task's first attempt ends once all rows are written."""

    @classmethod
    def name(cls) -> str:
        return "lost-behind"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        class Writer(_FailsBehind, DataSourceArrowWriter):
            """The writer of a batch."""

        return Writer(super().writer(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802  # Spark's
        class Writer(_FailsBehind, DataSourceStreamArrowWriter):
            """The writer of a stream."""

        return Writer(super().streamWriter(schema, overwrite))

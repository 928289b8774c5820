"""The facts of a task: its partition, epoch, query and attempt."""

from __future__ import annotations

from typing import Final, Self

import attrs
from pyspark import TaskContext

from aioproducer import StateError

__all__ = ["QUERY", "RUN", "TaskFacts"]

EPOCH: Final = "streaming.sql.batchId"
QUERY: Final = "sql.streaming.queryId"
# Spark sets it for queries, to another value at each start.
RUN: Final = "spark.jobGroup.id"
SPECULATION: Final = "spark.speculation"


@attrs.frozen
class TaskFacts:
    """The facts that Spark passes."""

    partition: int
    # Unlike every other attempt of the same driver, and higher than those of earlier attempts.
    attempt: int
    epoch: int | None
    query: str | None
    # Whether Spark may run two attempts of a task at the same time.
    speculation: bool
    # The run of the query.
    run: str | None = None

    @classmethod
    def here(cls) -> Self:
        """The facts of the task in this process."""
        context = TaskContext.get()
        if context is None:
            raise StateError("the call is possible in a Spark task only")
        epoch = context.getLocalProperty(EPOCH)
        return cls(
            partition=context.partitionId(),
            attempt=int(context.taskAttemptId()),
            epoch=None if epoch is None else int(epoch),
            query=context.getLocalProperty(QUERY),
            # Spark ignores the case of this value.
            speculation=(context.getLocalProperty(SPECULATION) or "").strip().lower() == "true",
            run=context.getLocalProperty(RUN),
        )

    @staticmethod
    def failed_attempts() -> int:
        """How many attempts of the task in this process have failed before this one."""
        context = TaskContext.get()
        return 0 if context is None else int(context.attemptNumber())

    def sink_and_epoch(self, sink_id: str | None) -> tuple[str, int]:
        """The permanent name of this task's work, unchanged by a restart from the same checkpoint."""
        name = sink_id or self.query
        if self.epoch is None or name is None:
            raise StateError(
                "Spark does not pass the query and epoch, which exactly-once requires: "
                "use delivery=at-least-once, or aioproducer.spark.foreach_batch()"
            )
        return name, self.epoch

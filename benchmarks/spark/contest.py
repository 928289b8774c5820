"""The common settings of all sinks, and the times that their tasks report."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Final, Self

import attrs

from benchmarks.measure import BATCH_SIZE, LINGER_MS

KEY_SIZE: Final = 16
VALUE_SIZE: Final = 100
PARTITIONS: Final = 4
# The folder for the tasks' times; tasks inherit it from the driver.
FOLDER: Final = "AIOPRODUCER_BENCH_FOLDER"
# The same settings for all, by Kafka's names.
TUNED: Final = {"acks": "all", "linger.ms": str(LINGER_MS), "batch.size": str(BATCH_SIZE)}


@attrs.frozen
class TaskTime:
    """The time of the Python side of one task."""

    rows: int
    seconds: float
    # Of all threads of the worker.
    cpu_seconds: float


class Watch:
    """`with Watch() as watch: ...; watch.rows = n` stores the time of a task for the driver."""

    rows: int = 0

    def __enter__(self) -> Self:
        self._cpu, self._began = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *ended: object) -> None:
        told = TaskTime(self.rows, time.perf_counter() - self._began, time.process_time() - self._cpu)
        (Path(os.environ[FOLDER]) / f"{uuid.uuid4().hex}.json").write_text(json.dumps(attrs.asdict(told)))


def told_by_tasks() -> list[TaskTime]:
    """The times that tasks have written down since the last call."""
    found = []
    for file in Path(os.environ[FOLDER]).iterdir():
        found.append(TaskTime(**json.loads(file.read_text())))
        file.unlink()
    return found


def cpu_micros(tasks: Iterable[TaskTime]) -> float:
    """Microseconds of the Python side's processor time for a row; 0 where no row went through Python."""
    told = list(tasks)
    rows = sum(task.rows for task in told)
    return sum(task.cpu_seconds for task in told) / rows * 1e6 if rows else 0.0


def median_ms(tasks: Iterable[TaskTime]) -> float:
    """The median time of a task's Python side."""
    seconds = [task.seconds for task in tasks]
    return median(seconds) * 1000 if seconds else 0.0

"""What one client's process reports of a round, and how it takes the time."""

from __future__ import annotations

import json
import os
import sys
import time
from types import TracebackType
from typing import Final, Self

import attrs

VALUE: Final = bytes(range(100))
BATCH_SIZE: Final = 131072
LINGER_MS: Final = 5
MARK: Final = "RESULT "


@attrs.frozen
class Task:
    """What one process is to do."""

    bootstrap_servers: str
    topic: str
    records: int
    warm_up: int


@attrs.frozen
class Round:
    """What one process did: all of `records` were acknowledged and checked."""

    records: int
    seconds: float
    cpu_seconds: float
    version: str

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds

    @property
    def cpu_micros(self) -> float:
        """Microseconds of processor time, of all threads of the process, for one record."""
        return self.cpu_seconds / self.records * 1e6

    def tell(self) -> None:
        """Print this where the process that started us reads it."""
        print(MARK + json.dumps(attrs.asdict(self)), flush=True)


@attrs.define
class Stopwatch:
    """`with Stopwatch() as watch: ...` measures wall and processor time of this process."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def __enter__(self) -> Self:
        self.cpu_seconds = _cpu()
        self.seconds = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.perf_counter() - self.seconds
        self.cpu_seconds = _cpu() - self.cpu_seconds

    def round(self, records: int, version: str) -> Round:
        """The round this watch measured."""
        return Round(records, self.seconds, self.cpu_seconds, version)


def task() -> Task:
    """What the command line of this process says it is to do."""
    return Task(**json.loads(sys.argv[1]))


def check_offsets(offsets: dict[int, list[int]], expected: int) -> None:
    """Every record has an offset of its own: no gap and no repeat in any partition."""
    total = sum(len(numbers) for numbers in offsets.values())
    if total != expected:
        raise SystemExit(f"{expected} records were sent and {total} acknowledged")
    for partition, numbers in offsets.items():
        if sorted(numbers) != list(range(min(numbers), min(numbers) + len(numbers))):
            raise SystemExit(f"the offsets of partition {partition} have gaps or repeats")


def _cpu() -> float:
    times = os.times()
    return times.user + times.system

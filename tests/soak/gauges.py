"""The resources of this process, as the operating system, the loop and the collector report them."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from array import array
from pathlib import Path
from typing import Any, Final

import attrs

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
MEGABYTE: Final = 1 << 20
GAUGES: Final = ("tasks", "fds", "timers", "threads", "objects")
"""The counts that must not grow, besides memory."""


@attrs.frozen
class Reading:
    """One measurement."""

    rss: int
    tasks: int
    fds: int
    timers: int
    threads: int
    objects: int


def resident() -> int:
    """The resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE


def read(loop: asyncio.AbstractEventLoop) -> Reading:
    """Measure now; garbage is collected first, so that only referenced objects count."""
    gc.collect()
    return Reading(
        rss=resident(),
        tasks=len(asyncio.all_tasks(loop)),
        fds=len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - names only; counted as often as anything else here
        timers=len(_timers(loop)),
        threads=threading.active_count(),
        objects=len(gc.get_objects()),
    )


def _timers(loop: Any) -> list[asyncio.TimerHandle]:
    return [handle for handle in loop._scheduled if not handle.cancelled()]


def _row() -> array[float]:
    return array("d")


@attrs.define
class Rows:
    """All readings so far, in arrays of numbers, so that the measurement itself does not grow."""

    times: array[float] = attrs.Factory(_row)
    rows: dict[str, array[float]] = attrs.Factory(lambda: {name: _row() for name in ("rss", *GAUGES)})

    def add(self, time: float, reading: Reading) -> None:
        """Add a reading."""
        self.times.append(time)
        for name, row in self.rows.items():
            row.append(getattr(reading, name))

"""The processes of Spark on this machine: their processor time and their memory."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tools.kafka_cluster import KafkaCluster

__all__ = ["cpu_of_spark", "memory_of_spark"]


@attrs.frozen
class _Process:
    pid: int
    name: str
    parent: int
    # Of its own, and of its children that have ended.
    ticks: int
    pages: int


def cpu_of_spark(kafka: KafkaCluster) -> float:
    """Seconds of processor time of all processes below this one, also of those that have ended, but for Kafka's nodes."""
    return sum(each.ticks for each in _of_spark(kafka)) / os.sysconf("SC_CLK_TCK")


def memory_of_spark(kafka: KafkaCluster) -> Counter[str]:
    """Resident megabytes of Java, and of the Python workers."""
    found: Counter[str] = Counter()
    for each in _of_spark(kafka):
        if each.pid != os.getpid():
            found["java" if each.name == "java" else "workers"] += each.pages
    size = os.sysconf("SC_PAGE_SIZE")
    return Counter({kind: pages * size // 1_000_000 for kind, pages in found.items()})


def _of_spark(kafka: KafkaCluster) -> list[_Process]:
    known = {each.pid: each for each in _all()}
    nodes = {node.pid for node in kafka.nodes}
    return [each for each in known.values() if os.getpid() in _above(each, known) and each.pid not in nodes]


def _above(process: _Process | None, known: dict[int, _Process]) -> Iterator[int]:
    """The process ids of a process, of its parent, and so on."""
    while process is not None:
        yield process.pid
        process = known.get(process.parent)


def _all() -> Iterator[_Process]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                head, _, tail = (folder / "stat").read_text(encoding="utf-8").rpartition(")")
            except OSError:
                continue
            fields = tail.split()
            ticks = sum(map(int, fields[11:15]))
            yield _Process(int(folder.name), head.partition("(")[2], int(fields[1]), ticks, int(fields[21]))

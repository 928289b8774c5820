"""The driver of a job with many tasks on one real Kafka node of this machine: the time to commit and to abort the tasks.

    python -m tests.spark.scale.real_node TASKS...

Prints the rows of docs/spark-scale.md.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

from tests.spark.scale.open_jobs import TOPIC, open_job
from tools.kafka_cluster import KafkaCluster

__all__ = ["main"]

PARTITIONS: Final = 12
# Producers that open the transactions, beside each other.
WORKERS: Final = 20


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that counts the connections which are opened."""

    opened = 0

    async def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Open a connection, as asyncio does."""
        self.opened += 1
        return await super().create_connection(*args, **kwargs)


async def _measure(kafka: KafkaCluster, tasks: int) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, CountingLoop)
    cells = [f"{tasks:,}"]
    for way in ("commit", "abort"):
        job, handles = await open_job(kafka.bootstrap_servers, tasks, workers=WORKERS)
        opened, client, broker, began = loop.opened, time.process_time(), _cpu(kafka), time.monotonic()
        await (job._commit(handles) if way == "commit" else job._abort())
        seconds = time.monotonic() - began
        used = f"{time.process_time() - client:.1f} | {_cpu(kafka) - broker:.1f}"
        cells.append(f"{seconds:.2f} | {loop.opened - opened:,d} | {used}")
    print("|", " | ".join(cells), "|", flush=True)


def _cpu(kafka: KafkaCluster) -> float:
    """Seconds of processor time that the nodes have used."""
    ticks = 0
    for node in kafka.nodes:
        stat = Path(f"/proc/{node.pid}/stat").read_text(encoding="utf-8")
        user, system = stat.rpartition(")")[2].split()[11:13]
        ticks += int(user) + int(system)
    return ticks / os.sysconf("SC_CLK_TCK")


def main(*sizes: int) -> None:
    """Print one row of the table for each number of tasks."""
    with KafkaCluster(1) as kafka:
        kafka.create_topic(TOPIC, PARTITIONS)
        with asyncio.Runner(loop_factory=CountingLoop) as runner:
            for tasks in sizes:
                runner.run(_measure(kafka, tasks))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

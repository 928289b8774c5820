"""The driver of a job with many tasks on one real Kafka node of this machine: the time to commit and to abort the tasks.

    python -m tests.spark.scale.real_node [--secured] TASKS...

Prints the rows of docs/spark-scale.md. `--secured`: over TLS and SCRAM-SHA-512, with sessions of five seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.kafka.secured import SCRAM_PASSWORD, USER, SecuredKafka
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


async def _measure(kafka: KafkaCluster, servers: str, options: Mapping[str, str], tasks: int) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, CountingLoop)
    cells = [f"{tasks:,}"]
    for way in ("commit", "abort"):
        job, handles = await open_job(servers, tasks, workers=WORKERS, **options)
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


def main(*sizes: int, secured: bool = False) -> None:
    """Print one row of the table for each number of tasks."""
    with tempfile.TemporaryDirectory() as folder:
        kafka = SecuredKafka.of(Path(folder)) if secured else KafkaCluster(1)
        with kafka:
            kafka.create_topic(TOPIC, PARTITIONS)
            servers, options = kafka.bootstrap_servers, dict[str, str]()
            if isinstance(kafka, SecuredKafka):
                servers = f"localhost:{kafka.sasl_port}"
                options = {
                    "kafka_security_protocol": "SASL_SSL",
                    "kafka_ssl_truststore_location": str(kafka.authority.own.certificate),
                    "kafka_sasl_mechanism": "SCRAM-SHA-512",
                    "kafka_sasl_username": USER,
                    "kafka_sasl_password": SCRAM_PASSWORD,
                }
            with asyncio.Runner(loop_factory=CountingLoop) as runner:
                for tasks in sizes:
                    runner.run(_measure(kafka, servers, options, tasks))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--secured", action="store_true")
    parser.add_argument("tasks", type=int, nargs="+")
    given = parser.parse_args()
    main(*given.tasks, secured=given.secured)

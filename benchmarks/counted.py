"""Instructions of an accepted send and of a request, counted by callgrind: the same on a busy machine as on a quiet one.

Two runs differ only in the number of sends; the difference of their counts, divided by that number, is the cost of one.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

import attrs

from aioproducer import Delivery, Producer
from aioproducer._core import ManualClock
from aioproducer.outlets import Checkpoint

if TYPE_CHECKING:
    # An import at the top would also start this under callgrind.
    from tools.kafka_cluster import KafkaCluster

SENDS: Final = 200_000
REQUESTS: Final = 1_000
RUNS: Final = 2
MANY_PARTITIONS: Final = 5_000
_FEW_SENDS: Final = 2_000
_FEW_REQUESTS: Final = 100
_VALUE: Final = bytes(100)
_PATIENCE_MS: Final = 3_600_000


@attrs.frozen
class Counts:
    """Instructions of one send, and of one request."""

    send: int
    # Of one record, with its answer: for a topic with one partition, and for a topic with many.
    request: int
    request_among_many: int
    # Of a record that is sent through a checkpoint, with its mark.
    checkpoint: int = 0


class CallgrindMissingError(RuntimeError):
    """Valgrind is missing on this machine."""


def count_instructions(kafka: KafkaCluster, scale: float = 1.0) -> Counts:
    """Count on topics of its own."""
    kafka.create_topic("counted", 1)
    kafka.create_topic("counted-many", MANY_PARTITIONS)
    servers = kafka.bootstrap_servers
    requests = max(_FEW_REQUESTS, int(REQUESTS * scale))
    return Counts(
        send=instructions_each(servers, "sends", "counted", _FEW_SENDS, max(1000, int(SENDS * scale))),
        request=instructions_each(servers, "requests", "counted", _FEW_REQUESTS, requests),
        request_among_many=instructions_each(servers, "requests", "counted-many", _FEW_REQUESTS, requests),
        checkpoint=instructions_each(
            servers, "checkpoint", "counted", _FEW_SENDS, max(1000, int(SENDS * scale))
        ),
    )


def instructions_each(servers: str, what: str, topic: str, few: int, more: int, runs: int = RUNS) -> int:
    """The cost of each of `more` additional ones, by the smallest counts of several runs.

    Another turn of the loop, or metadata of 5,000 partitions that are asked for again, add instructions, and nothing takes some
    away.
    """
    with ThreadPoolExecutor(2) as pool:
        counts = [
            tuple(pool.map(lambda count: _counted(servers, what, topic, str(count)), (few, few + more)))
            for _ in range(runs)
        ]
    without = min(first for first, _ in counts)
    with_them = min(second for _, second in counts)
    return round((with_them - without) / more)


def _counted(*asked: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={Path(folder) / 'out'}"]
        command += [sys.executable, "-m", "benchmarks.counted", *asked]
        # Hashes of str affect collisions, and so the number of instructions.
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        except FileNotFoundError:
            raise CallgrindMissingError("valgrind is missing: install the package valgrind") from None
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"callgrind ended with {done.returncode}:\n{done.stderr}")
    return int(found[1])


@asynccontextmanager
async def _accepting(bootstrap_servers: str, topic: str, count: int) -> AsyncIterator[Producer]:
    # Nothing is sent before all records are accepted, and the clock stands still: callgrind slows the program down so
    # much that the counts would include turns of the loop that a send does not cost.
    still = ManualClock(asyncio.get_running_loop().time(), time.time_ns() // 1_000_000)
    with patch("aioproducer._calls.lifecycle.Clock", lambda: still):
        async with Producer(
            bootstrap_servers,
            linger_ms=_PATIENCE_MS,
            delivery_timeout_ms=2 * _PATIENCE_MS,
            batch_size=1 << 25,
            max_request_size=1 << 25,
            buffer_memory=1 << 26,
        ) as producer:
            await producer.partitions_for(topic)
            yield producer
            if producer.stats().records_buffered != count:
                raise SystemExit("some records had left already: what was counted is not a send alone")
            # The other costs of the records are not counted.
            os._exit(0)


async def _sends(bootstrap_servers: str, topic: str, count: int) -> None:
    async with _accepting(bootstrap_servers, topic, count) as producer:
        send = producer.send
        kept: list[Delivery] = [await send(topic, _VALUE) for _ in range(count)]
        assert len(kept) == count  # noqa: S101  # they are kept until here


async def _through_a_checkpoint(bootstrap_servers: str, topic: str, count: int) -> None:
    async with _accepting(bootstrap_servers, topic, count) as producer:
        checkpoint: Checkpoint[int] = Checkpoint(producer)
        send, mark = checkpoint.send, checkpoint.mark
        for number in range(count):
            await send(topic, _VALUE)
            mark(number)


async def _requests(bootstrap_servers: str, topic: str, count: int) -> None:
    async with Producer(bootstrap_servers) as producer:
        await producer.partitions_for(topic)
        for _ in range(count):
            await producer.send_and_wait(topic, _VALUE, partition=0)


if __name__ == "__main__":
    program = {"sends": _sends, "requests": _requests, "checkpoint": _through_a_checkpoint}[sys.argv[2]]
    asyncio.run(program(sys.argv[1], sys.argv[3], int(sys.argv[4])))

"""Instructions of an accepted send, counted by callgrind: the same on a busy machine as on a quiet one.

Two runs differ in nothing but the number of sends; what they differ by, divided by that number, is what one costs.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final
from unittest.mock import patch

from aioproducer import Delivery, Producer
from aioproducer._core import ManualClock

SENDS: Final = 200_000
_FEW: Final = 2_000
_VALUE: Final = bytes(100)
TOPIC: Final = "counted"
_PATIENCE_MS: Final = 3_600_000


class CallgrindMissingError(RuntimeError):
    """Valgrind is not on this machine."""


def instructions_per_send(bootstrap_servers: str, sends: int = SENDS) -> int:
    """How many instructions one accepted send to `TOPIC` takes; the topic has to be there."""
    few, many = (_counted(bootstrap_servers, count) for count in (_FEW, _FEW + sends))
    return round((many - few) / sends)


def _counted(bootstrap_servers: str, count: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={Path(folder) / 'out'}"]
        command += [sys.executable, "-m", "benchmarks.counted", bootstrap_servers, str(count)]
        # Hashes of str decide about collisions, and so about instructions.
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        except FileNotFoundError:
            raise CallgrindMissingError("valgrind is missing: install the package valgrind") from None
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"callgrind ended with {done.returncode}:\n{done.stderr}")
    return int(found[1])


async def _send(bootstrap_servers: str, count: int) -> None:
    # Nothing leaves before all is accepted, and the clock stands still: under callgrind everything takes fifty times as
    # long, so that turns of the loop would be counted which a send does not cost.
    still = ManualClock(asyncio.get_running_loop().time(), time.time_ns() // 1_000_000)
    with patch("aioproducer.producer.Clock", lambda: still):
        await _send_all(bootstrap_servers, count)


async def _send_all(bootstrap_servers: str, count: int) -> None:
    async with Producer(
        bootstrap_servers,
        linger_ms=_PATIENCE_MS,
        delivery_timeout_ms=2 * _PATIENCE_MS,
        batch_size=1 << 25,
        max_request_size=1 << 25,
        buffer_memory=1 << 26,
    ) as producer:
        await producer.partitions_for(TOPIC)
        send = producer.send
        kept: list[Delivery] = [await send(TOPIC, _VALUE) for _ in range(count)]
        if producer.stats().records_buffered != len(kept):
            raise SystemExit("some records had left already: what was counted is not a send alone")
        # What else happens to the records is not to be counted.
        os._exit(0)


if __name__ == "__main__":
    asyncio.run(_send(sys.argv[1], int(sys.argv[2])))

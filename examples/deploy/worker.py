"""A worker without a web server: on SIGTERM or Ctrl-C it stops working, delivers what it has sent, and tells the rest.

Run it: python examples/deploy/worker.py
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys

from aioproducer import Producer

KAFKA = os.environ.get("KAFKA", "localhost:9092")
log = logging.getLogger("worker")


async def work(producer: Producer, stopped: asyncio.Event) -> None:
    """Send a tick each second until the signal comes."""
    number = 0
    while not stopped.is_set():
        await producer.send("ticks", b"tick %d" % number)
        number += 1
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), timeout=1.0)


async def main() -> int:
    """Work until a signal; the exit code is 1 if records were lost at the end."""
    # As process 1 of a container, a program without a handler would not even get SIGTERM.
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    # close() waits for at most 10 seconds: below terminationGracePeriodSeconds of kubernetes.yaml.
    async with Producer(KAFKA, close_timeout_ms=10_000) as producer:
        await work(producer, stopped)
        log.info("stopping")
        report = await producer.close()
    log.info("closed: %s", report)
    return 1 if report.not_written or report.unknown else 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    sys.exit(asyncio.run(main()))

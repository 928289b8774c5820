"""A worker without a web server: on SIGTERM or Ctrl-C it stops working, delivers what it has sent, and tells the rest.

Run it: python examples/deploy/worker.py
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import sys

from aioproducer import Producer

KAFKA = os.environ.get("KAFKA", "localhost:9092")
log = logging.getLogger("worker")


async def work(producer: Producer) -> None:
    """Send a tick each second."""
    for number in itertools.count():
        await producer.send("ticks", b"tick %d" % number)
        await asyncio.sleep(1.0)


async def main() -> int:
    """Work until a signal; the exit code is 1 if records were lost at the end, or if the work failed."""
    # As process 1 of a container, a program without a handler would not even get SIGTERM.
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    # close() waits for at most 10 seconds: below terminationGracePeriodSeconds of kubernetes.yaml.
    async with Producer(KAFKA, close_timeout_ms=10_000) as producer:
        working = asyncio.create_task(work(producer))
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        log.info("stopping")
        # A send() may wait for memory or metadata for a minute. Cancelled, it withdraws its record.
        working.cancel()
        await asyncio.wait([working])
        report = await producer.close()
    log.info("closed: %s", report)
    if not working.cancelled():
        log.error("the work has failed", exc_info=working.exception())
        return 1
    return 1 if report.not_written or report.unknown else 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    sys.exit(asyncio.run(main()))

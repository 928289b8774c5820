"""An embedded Kafka in a process of its own that reads every Produce request and never answers one.

    python -m tests.proxy.programs.silent_broker

It prints its port, and how many Produce requests it was sent.
"""

from __future__ import annotations

import asyncio
import sys

from aioproducer.testing import EmbeddedKafka


async def main() -> None:
    """Serve until the other end of its input is closed."""
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("four", 4)
        fault = kafka.faults.silence(api="Produce")
        print(kafka.brokers[0].port, flush=True)
        await asyncio.to_thread(sys.stdin.read)
        print(fault.hits, flush=True)


if __name__ == "__main__":
    asyncio.run(main())

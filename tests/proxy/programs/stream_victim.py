"""A program that sends through a hostile broker, and tells how much memory that cost it.

    python -m tests.proxy.programs.stream_victim PORT GOOD

It prints how many bytes it has grown by at most, and how many connections it made.
"""

from __future__ import annotations

import asyncio
import sys

from aioproducer import Producer
from tests.proxy.programs.footprint import peak, resident


async def send(port: int, good: int) -> None:
    """So many records that are answered, then one that takes until the broker is through with its stream."""
    async with Producer(
        f"127.0.0.1:{port}",
        linger_ms=0,
        reconnect_backoff_ms=1,
        reconnect_backoff_max_ms=1,
        retry_backoff_ms=1,
        retry_backoff_max_ms=1,
    ) as producer:
        for _ in range(good):
            await producer.send_and_wait("one", b"value")
        before = resident()
        await producer.send_and_wait("one", b"value")
        print(peak() - before, producer.stats().connections[0].connects)


if __name__ == "__main__":
    asyncio.run(send(*map(int, sys.argv[1:])))

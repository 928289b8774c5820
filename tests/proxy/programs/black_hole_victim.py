"""A program in which very many tasks send without a pause, whatever comes of it, to brokers that never answer.

    python -m tests.proxy.programs.black_hole_victim PORT SENDERS BUFFER_MEMORY SECONDS

It prints the most memory that its sending took, how many records were accepted, how many failed and how many calls were refused.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from aioproducer import BufferFullError, Producer, Stats
from tests.proxy.programs.footprint import peak, resident

VALUE = bytes(1_000)
PAUSE = 0.2
SETTINGS: dict[str, Any] = {
    "request_timeout_ms": 500,
    "delivery_timeout_ms": 1_000,
    "max_block_ms": 1_500,
}
"""So that in a few seconds records expire, callers are refused, and others take their place."""


async def send_for_ever(producer: Producer[Any, Any], begin: asyncio.Event, refused: list[int]) -> None:
    """One sender that never learns."""
    await begin.wait()
    while True:
        try:
            await producer.send("four", VALUE)
        except BufferFullError:
            refused[0] += 1


def has_pressed(stats: Stats, buffer_memory: int) -> bool:
    """More was accepted than memory holds, and a broker was sent a request and did not answer."""
    return stats.records_accepted * len(VALUE) > buffer_memory and stats.requests > 0


async def press(port: int, senders: int, buffer_memory: int, seconds: int) -> None:
    """So many senders for so long, and until they have pressed: a busy machine takes longer."""
    refused, begin = [0], asyncio.Event()
    async with Producer(f"127.0.0.1:{port}", buffer_memory=buffer_memory, **SETTINGS) as producer:
        await producer.partitions_for("four")
        tasks = [asyncio.create_task(send_for_ever(producer, begin, refused)) for _ in range(senders)]
        await asyncio.sleep(0)
        # The interpreter, imports and the senders themselves are not counted for the producer.
        before = resident()
        begin.set()
        await asyncio.wait(tasks, timeout=seconds)
        while not has_pressed(producer.stats(), buffer_memory):
            await asyncio.wait(tasks, timeout=PAUSE)
        stats = producer.stats()
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        print(peak() - before, stats.records_accepted, stats.records_failed, refused[0])
        await producer.close(timeout=0)


if __name__ == "__main__":
    asyncio.run(press(*map(int, sys.argv[1:])))

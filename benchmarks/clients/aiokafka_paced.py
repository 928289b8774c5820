"""aiokafka with linger 0: `send_and_wait` of single records at a pace."""

from __future__ import annotations

import asyncio

import aiokafka

from benchmarks.clients.pace import paced
from benchmarks.measure import Round, Work, work


async def _program(one: Work) -> Round:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=one.bootstrap_servers, acks="all", enable_idempotence=True, linger_ms=0
    )

    async def write(value: bytes) -> tuple[int, int]:
        metadata = await producer.send_and_wait(one.topic, value)
        return metadata.partition, metadata.offset

    async with producer:
        return await paced(write, one, f"aiokafka {aiokafka.__version__}")


if __name__ == "__main__":
    asyncio.run(_program(work())).tell()

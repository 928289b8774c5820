"""aiokafka in a shape of production: one task that awaits each `send()`, and every future at the end."""

from __future__ import annotations

import asyncio
from typing import Any

import aiokafka

from benchmarks.clients.aiokafka_common import aiokafka_producer
from benchmarks.clients.shape import Places, round_of, ticks
from benchmarks.measure import Round, Stopwatch, Work, work


async def _send_all(producer: aiokafka.AIOKafkaProducer, one: Work, count: int) -> list[Any]:
    send, (value,) = producer.send, one.values(1)
    futures = []
    for tick in ticks(one, count):
        if one.rate:
            await asyncio.sleep(tick.pause)
        for topic, key in tick.records:
            futures.append(await send(topic, value, key=key))  # between two sleeps
    await producer.flush()
    return futures


async def _check(one: Work, futures: list[Any]) -> None:
    places = Places(one)
    for future in futures:
        metadata = await future
        places.add(metadata.topic, metadata.partition, metadata.offset)
    places.check(len(futures))


async def _run(one: Work) -> Round:
    producer = aiokafka_producer(one)
    async with producer:
        await _check(one, await _send_all(producer, one, one.warm_up))
        with Stopwatch() as watch:
            futures = await _send_all(producer, one, one.records)
        await _check(one, futures)
    return round_of(watch, one, f"aiokafka {aiokafka.__version__}")


if __name__ == "__main__":
    asyncio.run(_run(work())).tell()

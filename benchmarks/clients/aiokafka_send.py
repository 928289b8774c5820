"""aiokafka: one task that awaits each `send()`, and then every future."""

from __future__ import annotations

import asyncio

import aiokafka

from benchmarks.clients.aiokafka_common import aiokafka_producer
from benchmarks.measure import (
    Offsets,
    Round,
    Stopwatch,
    Work,
    check_offsets,
    no_offsets,
    work,
)


async def _send_all(producer: aiokafka.AIOKafkaProducer, one: Work, count: int) -> Offsets:
    send, topic = producer.send, one.topic
    futures = [await send(topic, value) for value in one.values(count)]
    offsets = no_offsets()
    for future in futures:
        metadata = await future
        offsets[metadata.partition].append(metadata.offset)
    return offsets


async def _run(one: Work) -> Round:
    producer = aiokafka_producer(one)
    await producer.start()
    try:
        check_offsets(await _send_all(producer, one, one.warm_up), one.warm_up)
        with Stopwatch() as watch:
            offsets = await _send_all(producer, one, one.records)
        check_offsets(offsets, one.records)
    finally:
        await producer.stop()
    return watch.round(one.records, f"aiokafka {aiokafka.__version__}")


if __name__ == "__main__":
    asyncio.run(_run(work())).tell()

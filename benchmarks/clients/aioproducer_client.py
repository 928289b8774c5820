"""aioproducer: one task that awaits each `send()`, then flushes and reads every delivery."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, version

from aioproducer import Delivery, Producer
from aioproducer.records import BytesLike
from benchmarks.measure import BATCH_SIZE, LINGER_MS, VALUE, Round, Stopwatch, Task, check_offsets, task


async def _send_all(
    producer: Producer[BytesLike, BytesLike], topic: str, records: int
) -> dict[int, list[int]]:
    send = producer.send
    deliveries: list[Delivery] = [await send(topic, VALUE) for _ in range(records)]
    (await producer.flush()).raise_for_errors()
    offsets: dict[int, list[int]] = defaultdict(list)
    for delivery in deliveries:
        metadata = delivery.result()
        offsets[metadata.partition].append(metadata.offset)
    return offsets


async def _run(one: Task) -> Round:
    async with Producer(
        one.bootstrap_servers,
        acks="all",
        enable_idempotence=True,
        linger_ms=LINGER_MS,
        batch_size=BATCH_SIZE,
        # The operating system's, as librdkafka and aiokafka leave it; Kafka's default of 128 KiB is ours otherwise.
        send_buffer_bytes=-1,
    ) as producer:
        check_offsets(await _send_all(producer, one.topic, one.warm_up), one.warm_up)
        with Stopwatch() as watch:
            offsets = await _send_all(producer, one.topic, one.records)
        check_offsets(offsets, one.records)
    return watch.round(one.records, _version())


def _version() -> str:
    try:
        return f"aioproducer {version('aioproducer')}"
    except PackageNotFoundError:
        return "aioproducer (source tree)"


if __name__ == "__main__":
    asyncio.run(_run(task())).tell()

"""aioproducer: `send_batch` of many values at a time, every result kept and checked."""

from __future__ import annotations

from collections import defaultdict

from aioproducer import BatchDelivery, Producer
from benchmarks.clients.ours import make_producer, own_version, run
from benchmarks.measure import Round, Stopwatch, Work, check_offsets


async def _send_all(producer: Producer, one: Work, count: int) -> dict[int, list[int]]:
    values = list(one.values(one.many))
    kept: list[BatchDelivery] = [
        await producer.send_batch(one.topic, values) for _ in range(count // one.many)
    ]
    (await producer.flush()).raise_for_errors()
    offsets: dict[int, list[int]] = defaultdict(list)
    for delivery in kept:
        result = await delivery
        result.raise_for_errors()
        for partition, offset in zip(result.partitions, result.offsets, strict=True):
            offsets[partition].append(offset)
    return offsets


async def _program(one: Work) -> Round:
    async with make_producer(one) as producer:
        check_offsets(await _send_all(producer, one, one.warm_up), one.warm_up)
        with Stopwatch() as watch:
            offsets = await _send_all(producer, one, one.records)
        check_offsets(offsets, one.records)
    return watch.round(one.records, own_version())


if __name__ == "__main__":
    run(_program)

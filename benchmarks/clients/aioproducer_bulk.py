"""aioproducer: `send_batch` of many values at a time; every result is kept, read and checked."""

from __future__ import annotations

from aioproducer import BatchDelivery, BatchResult, Producer
from benchmarks.clients.ours import make_producer, own_version, run
from benchmarks.measure import Round, Stopwatch, Work, check_offsets, no_offsets


async def _send_all(producer: Producer, one: Work, count: int) -> list[BatchResult]:
    values = list(one.values(one.many))
    kept: list[BatchDelivery] = [
        await producer.send_batch(one.topic, values) for _ in range(count // one.many)
    ]
    (await producer.flush()).raise_for_errors()
    return [await delivery for delivery in kept]


def _check(results: list[BatchResult], expected: int) -> None:
    # The result has each record's partition and offset; the comparison is not a part of sending.
    offsets = no_offsets()
    for result in results:
        result.raise_for_errors()
        for partition, offset in zip(result.partitions, result.offsets, strict=True):
            offsets[partition].append(offset)
    check_offsets(offsets, expected)


async def _program(one: Work) -> Round:
    async with make_producer(one) as producer:
        _check(await _send_all(producer, one, one.warm_up), one.warm_up)
        with Stopwatch() as watch:
            results = await _send_all(producer, one, one.records)
        _check(results, one.records)
    return watch.round(one.records, own_version())


if __name__ == "__main__":
    run(_program)

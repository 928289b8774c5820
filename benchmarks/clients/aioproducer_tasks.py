"""aioproducer: many tasks, each of which sends a record and waits until it is written, again and again."""

from __future__ import annotations

import asyncio

from aioproducer import Producer
from benchmarks.clients.ours import make_producer, own_version, run
from benchmarks.measure import Offsets, Round, Stopwatch, Work, check_offsets, no_offsets


async def _loop(producer: Producer, one: Work, count: int, offsets: Offsets) -> None:
    for value in one.values(count):
        metadata = await producer.send_and_wait(one.topic, value)
        offsets[metadata.partition].append(metadata.offset)


async def _send_all(producer: Producer, one: Work, count: int) -> Offsets:
    offsets = no_offsets()
    await asyncio.gather(*(_loop(producer, one, count // one.many, offsets) for _ in range(one.many)))
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

"""aioproducer: the longest time that it blocks the event loop, over several kinds of work."""

from __future__ import annotations

import asyncio
import gc

from aioproducer import Producer
from benchmarks.clients.ours import LoopWatch, make_producer, own_version, run
from benchmarks.measure import Round, Stopwatch, Work


async def _one_by_one(producer: Producer, one: Work) -> None:
    for value in one.values(one.records):
        await producer.send(one.topic, value)
    await producer.flush()


async def _bulk(producer: Producer, one: Work) -> None:
    values = list(one.values(10_000))
    for _ in range(one.records // 10_000):
        await producer.send_batch(one.topic, values)
    await producer.flush()


async def _waiting_tasks(producer: Producer, one: Work) -> None:
    async def again(count: int) -> None:
        for value in one.values(count):
            await producer.send_and_wait(one.topic, value)

    await asyncio.gather(*(again(one.records // 10_000) for _ in range(1_000)))


KINDS = {"one_by_one": _one_by_one, "bulk": _bulk, "tasks": _waiting_tasks}


async def _program(one: Work) -> Round:
    longest: dict[str, float] = {}
    with Stopwatch() as all_of_it:
        for name, kind in KINDS.items():
            watch = LoopWatch()
            async with make_producer(one) as producer:
                await producer.partitions_for(one.topic)
                # What the imports have made is collected once in each program, by whatever runs then.
                gc.collect()
                watch.start()
                await kind(producer, one)
                watch.stop()
                await asyncio.sleep(0)
            longest[f"{name}_step_ms"] = watch.longest_step * 1000
            longest[f"{name}_turn_ms"] = watch.longest_turn * 1000
    return all_of_it.round(one.records * len(KINDS), own_version(), **longest)


if __name__ == "__main__":
    run(_program)

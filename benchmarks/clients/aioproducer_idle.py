"""aioproducer: the memory of an idle producer, of many in one process, each with connections to the cluster."""

from __future__ import annotations

import asyncio
import gc
import time

from aioproducer import Producer
from benchmarks.clients.ours import make_producer, own_version, resident, run
from benchmarks.measure import Round, Stopwatch, Work

_AT_ONCE = 20
_WATCHED_SECONDS = 2.0


async def _connected(one: Work) -> Producer:
    producer = make_producer(one)
    await producer.start()
    await producer.send_and_wait(one.topic, b"one record, for a connection to a leader")
    return producer


async def _program(one: Work) -> Round:
    producers: list[Producer] = []

    async def connect(count: int) -> None:
        while count > 0:
            producers.extend(await asyncio.gather(*(_connected(one) for _ in range(min(count, _AT_ONCE)))))
            count -= _AT_ONCE
        gc.collect()

    # The first of them load modules and keep buffers for all.
    await connect(_AT_ONCE)
    before = resident()
    with Stopwatch() as watch:
        await connect(one.records)
    each = (resident() - before) / one.records
    began = time.process_time()
    await asyncio.sleep(_WATCHED_SECONDS)
    idle = time.process_time() - began
    await asyncio.gather(*(producer.close() for producer in producers))
    return watch.round(one.records, own_version(), kib_each=each / 1024, idle_cpu_ms=idle * 1000)


if __name__ == "__main__":
    run(_program)

"""aioproducer: tasks that await each `send()` (one, unless there are many producers), then a flush, then every delivery is read."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import chain

from aioproducer import Delivery, Producer
from benchmarks.clients.ours import make_producer, offsets_of, own_version, run
from benchmarks.measure import Offsets, Round, Stopwatch, Work, check_offsets


async def _send_share(producer: Producer, one: Work, count: int) -> list[Delivery]:
    send, topic, partition = producer.send, one.topic, one.partition
    values = one.values(count)
    if one.key_size:
        pairs = zip(values, one.keys(count), strict=True)
        deliveries = [await send(topic, value, key=key) for value, key in pairs]
    elif partition is not None:
        deliveries = [await send(topic, value, partition=partition) for value in values]
    else:
        deliveries = [await send(topic, value) for value in values]
    (await producer.flush()).raise_for_errors()
    return deliveries


async def _send_all(producers: list[Producer], one: Work, count: int) -> Offsets:
    share = count // len(producers)
    done = await asyncio.gather(*(_send_share(producer, one, share) for producer in producers))
    return offsets_of(chain.from_iterable(done))


async def _program(one: Work) -> Round:
    async with AsyncExitStack() as stack:
        producers = [await stack.enter_async_context(make_producer(one)) for _ in range(one.many)]
        check_offsets(await _send_all(producers, one, one.warm_up), one.warm_up)
        before = sum(producer.stats().requests for producer in producers)
        with Stopwatch() as watch:
            offsets = await _send_all(producers, one, one.records)
        check_offsets(offsets, one.records)
        requests = sum(producer.stats().requests for producer in producers) - before
    return watch.round(
        one.records,
        own_version(),
        off_loop=1 - watch.thread_seconds / watch.cpu_seconds,
        request_micros=watch.cpu_seconds / requests * 1e6,
    )


if __name__ == "__main__":
    run(_program)

"""aioproducer in a shape of production: one task that awaits each `send()`, every delivery is read at the end."""

from __future__ import annotations

import asyncio

from aioproducer import Delivery, Producer
from benchmarks.clients.ours import make_producer, own_version, run
from benchmarks.clients.shape import Places, round_of, ticks
from benchmarks.measure import Round, Stopwatch, Work


async def _send_all(producer: Producer, one: Work, count: int) -> list[Delivery]:
    send, (value,) = producer.send, one.values(1)
    deliveries = []
    for tick in ticks(one, count):
        if one.rate:
            await asyncio.sleep(tick.pause)
        for topic, key in tick.records:
            deliveries.append(await send(topic, value, key=key))  # between two sleeps
    (await producer.flush()).raise_for_errors()
    return deliveries


def _check(one: Work, deliveries: list[Delivery]) -> None:
    places = Places(one)
    for delivery in deliveries:
        metadata = delivery.result()
        places.add(metadata.topic, metadata.partition, metadata.offset)
    places.check(len(deliveries))


async def _program(one: Work) -> Round:
    async with make_producer(one) as producer:
        _check(one, await _send_all(producer, one, one.warm_up))
        before = producer.stats()
        with Stopwatch() as watch:
            deliveries = await _send_all(producer, one, one.records)
        after = producer.stats()
        _check(one, deliveries)
    return round_of(
        watch,
        one,
        own_version(),
        per_batch=one.records / (after.batches - before.batches),
        per_request=one.records / (after.requests - before.requests),
    )


if __name__ == "__main__":
    run(_program)

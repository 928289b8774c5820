"""aioproducer: transactions one after the other; of each the deliveries are read once it is committed."""

from __future__ import annotations

import time
import uuid

from aioproducer import Producer
from benchmarks.clients.ours import make_producer, offsets_of, own_version, run
from benchmarks.measure import Round, Stopwatch, Transacted, Work, percentiles

_ROUND_TRIPS = 200


async def _transact(producer: Producer, one: Work, count: int) -> Transacted:
    send, topic = producer.send, one.topic
    done = Transacted()
    for _ in range(count // one.per_transaction):
        async with producer.transaction():
            deliveries = [await send(topic, value) for value in one.values(one.per_transaction)]
            began = time.perf_counter()
        done.committed(offsets_of(deliveries), time.perf_counter() - began)
    return done


async def _round_trip(one: Work) -> float:
    """The median milliseconds of a record that is sent without a transaction, and awaited."""
    seconds = []
    async with make_producer(one) as producer:
        for value in one.values(2 * _ROUND_TRIPS):
            began = time.perf_counter()
            await producer.send_and_wait(one.topic, value)
            seconds.append(time.perf_counter() - began)
    return percentiles(seconds[_ROUND_TRIPS:])["p50_ms"]


async def _program(one: Work) -> Round:
    settings = {"transactional_id": f"ours-{uuid.uuid4()}", "linger_ms": one.linger_ms}
    async with make_producer(one, **settings) as producer:
        (await _transact(producer, one, one.warm_up)).check(one.warm_up)
        with Stopwatch() as watch:
            done = await _transact(producer, one, one.records)
        done.check(one.records)
    figures = done.figures(watch.seconds) | {"round_trip_ms": await _round_trip(one)}
    return watch.round(one.records, own_version(), **figures)


if __name__ == "__main__":
    run(_program)

"""aioproducer: transactions one after the other; the deliveries of each are read after its commit."""

from __future__ import annotations

import time
import uuid
from statistics import median

from aioproducer import Producer
from benchmarks.clients.ours import make_producer, offsets_of, own_version, run
from benchmarks.measure import Round, Stopwatch, Transacted, Work

_ROUND_TRIPS = 100


async def _transact(producer: Producer, one: Work, count: int) -> Transacted:
    send, topic = producer.send, one.topic
    done = Transacted()
    for _ in range(count // one.per_transaction):
        async with producer.transaction():
            deliveries = [await send(topic, value) for value in one.values(one.per_transaction)]
            began = time.perf_counter()
        done.committed(offsets_of(deliveries), time.perf_counter() - began)
    return done


async def _commit_in_round_trips(producer: Producer, one: Work) -> float:
    """The median commit and the median record without a transaction, measured alternately, as machines vary over time."""
    trips = []
    commits: list[float] = []
    async with make_producer(one, linger_ms=one.linger_ms) as plain:
        for value in one.values(_ROUND_TRIPS):
            began = time.perf_counter()
            await plain.send_and_wait(one.topic, value)
            trips.append(time.perf_counter() - began)
            commits += (await _transact(producer, one, one.per_transaction)).commits
    return median(commits) / median(trips)


async def _program(one: Work) -> Round:
    settings = {"transactional_id": f"ours-{uuid.uuid4()}", "linger_ms": one.linger_ms}
    async with make_producer(one, **settings) as producer:
        (await _transact(producer, one, one.warm_up)).check(one.warm_up)
        with Stopwatch() as watch:
            done = await _transact(producer, one, one.records)
        done.check(one.records)
        figures = done.figures(watch.seconds)
        if one.per_transaction == 1:
            figures["commit_in_round_trips"] = await _commit_in_round_trips(producer, one)
    return watch.round(one.records, own_version(), **figures)


if __name__ == "__main__":
    run(_program)

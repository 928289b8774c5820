"""aioproducer: producers that connect and close, one after the other; `records` is their number."""

from __future__ import annotations

import asyncio
import gc

import attrs

from benchmarks.clients.ours import LoopWatch, make_producer, own_version, run
from benchmarks.measure import Round, Stopwatch, Work


async def _connect(one: Work, count: int) -> None:
    for _ in range(count):
        async with make_producer(one) as producer:
            await producer.partitions_for(one.topic)


async def _longest_step(one: Work) -> float:
    """The longest step of any connection, as of a program that connects once: closed producers are collected in between."""
    gc.freeze()
    watch = LoopWatch()
    for _ in range(one.records):
        gc.collect()
        # The step that has collected is over before the watch begins.
        await asyncio.sleep(0)
        watch.start()
        await _connect(one, 1)
        watch.stop()
        await asyncio.sleep(0)
    return watch.longest_step


async def _program(given: Work) -> Round:
    # The certificate has this name, and plaintext gets the same look-up and addresses.
    one = attrs.evolve(given, bootstrap_servers=given.bootstrap_servers.replace("127.0.0.1", "localhost"))
    await _connect(one, one.warm_up)
    with Stopwatch() as watch:
        await _connect(one, one.records)
    # By itself: it keeps the loop from sleeping, which costs processor time.
    step = await _longest_step(one)
    return watch.round(
        one.records,
        own_version(),
        cpu_ms=watch.cpu_seconds / one.records * 1000,
        loop_ms=watch.thread_seconds / one.records * 1000,
        step_ms=step * 1000,
    )


if __name__ == "__main__":
    run(_program)

"""Sending at a pace: each record at its time, also while earlier records are not written."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable

from benchmarks.measure import Round, Stopwatch, Work, check_offsets, no_offsets, percentiles

# Writes one record and returns its place: partition and offset.
Write = Callable[[bytes], Awaitable[tuple[int, int]]]


async def paced(write: Write, one: Work, version: str) -> Round:
    """Send `records` at `rate` and measure each from its due time to the time when its place is known."""
    await _sent(write, one, one.warm_up)
    gc.collect()
    with Stopwatch() as watch:
        done = await _sent(write, one, one.records)
    offsets = no_offsets()
    for partition, offset, _ in done:
        offsets[partition].append(offset)
    check_offsets(offsets, one.records)
    waits = [seconds for _, _, seconds in done]
    return watch.round(one.records, version, **percentiles(waits), longest_ms=max(waits) * 1000)


async def _sent(write: Write, one: Work, count: int) -> list[tuple[int, int, float]]:
    loop = asyncio.get_running_loop()
    start = loop.time()
    tasks = []
    for number, value in enumerate(one.values(count)):
        due = start + number / one.rate
        pause = due - loop.time()
        if pause > 0:
            await asyncio.sleep(pause)
        tasks.append(asyncio.create_task(_timed(write, value, due)))
    return await asyncio.gather(*tasks)


async def _timed(write: Write, value: bytes, due: float) -> tuple[int, int, float]:
    partition, offset = await write(value)
    return partition, offset, asyncio.get_running_loop().time() - due

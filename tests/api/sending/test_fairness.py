"""A long loop of accepted sends lets other tasks run; a slow one does not suspend needlessly.

Time is this thread's CPU time, so that a busy machine does not count; the broker, which lives in the same thread, is
held back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka
from tests.api.support import first_step, held_requests, started, turns

LONGEST = 0.005


async def gaps_during(work: Callable[[], Coroutine[Any, Any, object]]) -> list[float]:
    """The waits of another task for its turns while `work` ran."""
    gaps: list[float] = []
    running = True

    async def other() -> None:
        last = time.thread_time()
        while running:
            await asyncio.sleep(0)
            now = time.thread_time()
            gaps.append(now - last)
            last = now

    task = started(other())
    await asyncio.sleep(0)
    await work()
    running = False
    await task
    return gaps


def assert_fair(gaps: list[float]) -> None:
    """Other tasks had a turn every 5 ms: on average, and nearly always."""
    assert sum(gaps) / len(gaps) <= LONGEST
    assert sorted(gaps)[len(gaps) * 9 // 10] <= LONGEST


async def test_a_loop_of_sends_lets_others_run(producer: Producer, kafka: EmbeddedKafka) -> None:
    """While one task sends without a pause, another has a turn every 5 ms."""
    held_requests(kafka)

    async def work() -> None:
        for _ in range(100_000):
            await producer.send("one", b"v" * 100)

    assert_fair(await gaps_during(work))


async def test_a_loop_of_slower_sends_lets_others_run(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Sends that are prepared in Python, for their list of headers, let others run as well."""
    held_requests(kafka)

    async def work() -> None:
        for _ in range(5_000):
            await producer.send("one", b"v", headers=[("a", b"b")])

    assert_fair(await gaps_during(work))


async def test_a_large_bulk_lets_others_run(producer: Producer, kafka: EmbeddedKafka) -> None:
    """One bulk call of 300,000 records lets others run between its slices."""
    held_requests(kafka)

    async def work() -> None:
        await producer.send_batch("one", [b"v" * 50] * 300_000)

    assert_fair(await gaps_during(work))


async def test_records_leave_during_a_loop_of_sends(producer: Producer) -> None:
    """The sender works during the loop: part of the records is acknowledged before it ends."""
    for _ in range(100_000):
        await producer.send("one", b"v" * 100)
    assert producer.stats().records_acked > 0


async def test_sends_that_are_far_apart_do_not_suspend(producer: Producer) -> None:
    """A send after a turn of the loop is accepted without suspending, each time."""
    for _ in range(20):
        await turns(2)
        first_step(producer.send("one", b"v"))
    await producer.flush()

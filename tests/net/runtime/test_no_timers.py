"""A producer that has ended has no timer in its loop, for any former wait (I9)."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer.testing import EmbeddedKafka
from tests.net.support import Make, send_all, timers_of_the_library, until, warm


@pytest.mark.parametrize("silent", [False, True], ids=["answered", "unanswered"])
async def test_a_closed_producer_leaves_no_timer(silent: bool, make: Make, kafka: EmbeddedKafka) -> None:
    """Neither for scheduled work, nor for requests without an answer."""
    producer = await warm(make(kafka, linger_ms=60_000), "one")
    await producer.send_and_wait("one", b"0")
    if silent:
        silence = kafka.faults.silence(api="Produce")
        await send_all(producer, range(1, 3))
        unanswered = asyncio.ensure_future(producer.send_and_wait("one", b"3"))
        await silence.reached()
    assert timers_of_the_library() != []
    await producer.close(0)
    if silent:
        await asyncio.wait([unanswered])
        unanswered.exception()
    assert timers_of_the_library() == []


async def test_a_producer_whose_tasks_have_died_leaves_no_timer(make: Make, kafka: EmbeddedKafka) -> None:
    """The same holds for one whose tasks were cancelled by other code."""
    producer = await warm(make(kafka, linger_ms=60_000), "one")
    await send_all(producer, range(3))
    for task in asyncio.all_tasks():
        if task.get_name() == "aioproducer supervisor":
            task.cancel()
    await until(lambda: producer.health().state not in ("running", "closing"))
    assert timers_of_the_library() == []

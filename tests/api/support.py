"""What several tests of the interface need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka, Fault

LIMIT = 30.0
"""Seconds after which a test that waits for something has failed."""


async def warm(producer: Producer[Any, Any]) -> Producer[Any, Any]:
    """Start it and let it learn the topics, so that the next send is accepted inside the call."""
    await producer.start(wait_ready=LIMIT)
    await producer.partitions_for("one")
    await producer.partitions_for("four")
    return producer


def values(kafka: EmbeddedKafka, topic: str = "one", partition: int | None = None) -> list[bytes | None]:
    """What was written, in order."""
    return [record.value for record in kafka.records(topic, partition)]


async def turns(count: int = 3) -> None:
    """Let everything that is ready in the loop run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until it is so; TimeoutError if it never is."""
    async with asyncio.timeout(LIMIT):
        while not condition():
            await turns(1)


def unknown_topic(kafka: EmbeddedKafka, name: str = "new") -> Fault:
    """Hold back what metadata says of a topic until it is released."""
    return kafka.faults.delay(api="Metadata", topic=name, times=None)


def held_answers(kafka: EmbeddedKafka) -> Fault:
    """Records are written, but no answer comes until it is released."""
    return kafka.faults.delay(times=None)


def held_requests(kafka: EmbeddedKafka) -> Fault:
    """Nothing is written until it is released."""
    return kafka.faults.delay(before=True, times=None)


def first_step(sending: Any) -> Any:
    """What an awaitable gives without suspending; it must end at its first step."""
    try:
        suspended = sending.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError(f"it suspended on {suspended!r}")


def started(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """A task that has not run yet."""
    return asyncio.get_running_loop().create_task(coroutine)

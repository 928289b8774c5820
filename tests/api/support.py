"""Shared functions of the interface tests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka, Fault
from tests.net.support import LIMIT, turns, until

__all__ = [
    "LIMIT",
    "first_step",
    "held_answers",
    "held_requests",
    "started",
    "turns",
    "unknown_topic",
    "until",
    "values",
    "warm",
]


async def warm(producer: Producer[Any, Any]) -> Producer[Any, Any]:
    """Start it and let it learn the topics, so that the next send is accepted inside the call."""
    await producer.start(wait_ready=LIMIT)
    await producer.partitions_for("one")
    await producer.partitions_for("four")
    return producer


def values(kafka: EmbeddedKafka, topic: str = "one", partition: int | None = None) -> list[bytes | None]:
    """The written values, in order."""
    return [record.value for record in kafka.records(topic, partition)]


def unknown_topic(kafka: EmbeddedKafka, name: str = "new") -> Fault:
    """Hold back the metadata of a topic until it is released."""
    return kafka.faults.delay(api="Metadata", topic=name, times=None)


def held_answers(kafka: EmbeddedKafka) -> Fault:
    """Records are written, but their answers are held until it is released."""
    return kafka.faults.delay(times=None)


def held_requests(kafka: EmbeddedKafka) -> Fault:
    """Records are not written until it is released."""
    return kafka.faults.delay(before=True, times=None)


def first_step(sending: Any) -> Any:
    """The result of an awaitable that does not suspend; it must end at its first step."""
    try:
        suspended = sending.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError(f"it suspended on {suspended!r}")


def started(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """A task that has not run yet."""
    return asyncio.get_running_loop().create_task(coroutine)

"""The core of the contract on every kind of event loop: asyncio's, in debug mode, with eager tasks, and uvloop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from aioproducer import DeliveryError, Outcome, Producer, StateError
from aioproducer.testing import EmbeddedKafka
from tests.api.support import LIMIT, held_requests, started, turns, values
from tests.loops import LOOPS, Scene, play_on


async def sends_and_order(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """Awaited sends are written in order."""
    deliveries = [await producer.send("one", b"%d" % i) for i in range(1000)]
    assert [(await delivery).offset for delivery in deliveries] == list(range(1000))
    assert values(kafka) == [b"%d" % i for i in range(1000)]


async def tasks_of_sends(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """Sends are given to gather, create_task, TaskGroup, wait_for, for known and unknown topics."""
    for topic in ("one", "new"):
        await asyncio.gather(*(producer.send(topic, b"v") for _ in range(5)))
        await asyncio.get_running_loop().create_task(producer.send_and_wait(topic, b"v"))
        async with asyncio.TaskGroup() as group:
            group.create_task(producer.send(topic, b"v"))
        await asyncio.wait_for(producer.send(topic, b"v"), LIMIT)
        await producer.flush()
        assert len(values(kafka, topic)) == 8


async def deliveries_as_futures(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """gather, wait, wait_for and timeout take deliveries."""
    many = [await producer.send("one", b"v") for _ in range(2000)]
    assert [metadata.offset for metadata in await asyncio.gather(*many)] == list(range(2000))
    done, pending = await asyncio.wait([await producer.send("one", b"v")])  # type: ignore[type-var]
    assert (len(done), len(pending)) == (1, 0)
    assert (await asyncio.wait_for(await producer.send("one", b"v"), LIMIT)).offset == 2001
    async with asyncio.timeout(LIMIT):
        await (await producer.send("one", b"v"))


async def cancelled_waits(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """Waits that end early leave the record; the handle can be awaited again."""
    hold = held_requests(kafka)
    delivery = await producer.send("one", b"v")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(delivery, 0.01)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await delivery
    gathered = asyncio.gather(delivery, return_exceptions=True)
    await turns()
    gathered.cancel()
    await asyncio.wait([gathered], timeout=LIMIT)
    assert gathered.done()
    # From 3.12 on wait_for() does not cancel the handle, so that gather() still waits for it when it is cancelled.
    with contextlib.suppress(asyncio.CancelledError):
        gathered.result()
    hold.heal()
    assert (await delivery).offset == 0
    assert delivery.outcome is Outcome.ACKED


async def failures(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """Failed records raise on each look."""
    kafka.faults.error("INVALID_REQUIRED_ACKS")
    delivery = await producer.send("one", b"v")
    results = await asyncio.gather(delivery, delivery.wait(), return_exceptions=True)
    assert isinstance(results[0], DeliveryError)
    assert results[1] is Outcome.NOT_WRITTEN


async def callbacks(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """Callbacks run in offset order before flush() returns."""
    offsets: list[int] = []
    for _ in range(100):
        (await producer.send("one", b"v")).add_done_callback(lambda one: offsets.append(one.result().offset))
    await producer.flush()
    assert offsets == list(range(100))


async def bulk(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """Bulk sends work."""
    result = await (await producer.send_batch("four", [b"%d" % i for i in range(5000)]))
    assert result.acked == 5000
    assert len(values(kafka, "four")) == 5000


async def closing_under_way(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """close() ends every call in progress."""
    held_requests(kafka)
    delivery = await producer.send("one", b"v")
    waiting = started(producer.send("one", b"v", partition=9))
    await turns()
    await producer.close(timeout=0.02)
    assert delivery.done()
    assert isinstance(waiting.exception(), StateError)


SCENES: list[Scene] = [
    sends_and_order,
    tasks_of_sends,
    deliveries_as_futures,
    cancelled_waits,
    failures,
    callbacks,
    bulk,
    closing_under_way,
]


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("loop", LOOPS)
def test_scene(loop: str, scene: Scene) -> None:
    """The scene runs on this loop."""
    play_on(loop, scene)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_health_after_the_loop(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """A producer whose loop was closed first is not ready, for the probes of another thread: it can send nothing."""
    loop = new_loop()

    async def start() -> Producer[Any, Any]:
        async with EmbeddedKafka() as kafka:
            producer: Producer[Any, Any] = Producer(kafka.bootstrap_servers)
            await producer.start(wait_ready=LIMIT)
            assert producer.health().ready
            return producer

    kept = [loop.run_until_complete(start())]
    loop.close()
    health = kept[0].health()
    assert (health.live, health.ready) == (True, False)
    assert health.problems == (
        "the event loop of the producer was closed before the producer: create a new one",
    )

    def drop() -> None:
        kept.clear()
        gc.collect()

    with pytest.warns(ResourceWarning, match="never closed"):
        drop()

"""Records of one partition are written in the order of the calls, through waits of every kind."""

from __future__ import annotations

import asyncio
import random

import pytest

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import held_requests, started, turns, unknown_topic, values, warm


def numbers(kafka: EmbeddedKafka, topic: str = "one", partition: int | None = None) -> list[int]:
    """The values, which tests write as decimal numbers; padding is cut off."""
    return [int((value or b"").split(b" ")[0]) for value in values(kafka, topic, partition)]


async def test_calls_of_many_tasks(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Records of several tasks are written in the order of the calls."""
    called: list[int] = []

    async def work(task: int) -> None:
        for turn in range(50):
            number = task * 1000 + turn
            called.append(number)
            await producer.send("one", b"%d" % number)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(task) for task in range(10)))
    await producer.flush()
    assert numbers(kafka) == called


async def test_calls_count_not_awaits(producer: Producer, kafka: EmbeddedKafka) -> None:
    """The place in the order is taken by the call; awaiting in the opposite order changes nothing."""
    sends = [producer.send("new", b"%d" % i) for i in range(5)]
    for sending in reversed(sends):
        await sending
    await producer.flush()
    assert numbers(kafka, "new") == list(range(5))


async def test_through_the_wait_for_metadata(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Sends that wait for the topic and those made as it becomes known keep their order."""
    hold = unknown_topic(kafka)
    sends = [started(producer.send("new", b"%d" % i)) for i in range(10)]
    await hold.reached()
    hold.release()
    i = 10
    while not sends[-1].done():
        await producer.send("new", b"%d" % i)
        i += 1
    await producer.flush()
    assert numbers(kafka, "new") == list(range(i))


async def test_through_the_wait_for_memory(make: Make, kafka: EmbeddedKafka) -> None:
    """Small records do not slip past a large one that waits for memory."""
    producer = await warm(make(buffer_memory=3000))
    hold = held_requests(kafka)
    sends = [started(producer.send("one", b"%d " % i + bytes(2000 if i % 2 else 10))) for i in range(10)]
    await hold.reached()
    hold.heal()
    await asyncio.gather(*sends)
    await producer.flush()
    assert numbers(kafka) == list(range(10))


async def test_10_000_waiting_sends(make: Make, kafka: EmbeddedKafka) -> None:
    """Ten thousand sends that wait for memory are all written, in order."""
    producer = await warm(make(buffer_memory=20_000))
    sends = [started(producer.send("one", b"%d" % i)) for i in range(10_000)]
    await asyncio.gather(*sends)
    await producer.flush()
    assert numbers(kafka) == list(range(10_000))


async def test_through_coroutine_serializers_of_different_speed(make: Make, kafka: EmbeddedKafka) -> None:
    """Coroutine serializers may finish in any order; the records are written in the order of the calls."""
    rng = random.Random(7)

    async def uneven(value: int) -> bytes:
        await turns(rng.randrange(10))
        return b"%d" % value

    producer = await warm(make(value_serializer=uneven))
    await asyncio.gather(*(producer.send("one", i) for i in range(100)))
    await producer.flush()
    assert numbers(kafka) == list(range(100))


async def test_a_slow_serializer_is_not_overtaken(make: Make, kafka: EmbeddedKafka) -> None:
    """A ready record waits for the one before it whose serializer has not finished."""
    gate = asyncio.Event()

    async def first_waits(value: int) -> bytes:
        if value == 0:
            await gate.wait()
        return b"%d" % value

    producer = await warm(make(value_serializer=first_waits))
    sends = [started(producer.send("one", i)) for i in range(3)]
    await turns(10)
    assert not any(task.done() for task in sends)
    gate.set()
    await asyncio.gather(*sends)
    await producer.flush()
    assert numbers(kafka) == [0, 1, 2]


async def test_fast_and_slow_forms_of_the_call(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Calls that need checking in Python and those that do not form one sequence."""
    for i in range(0, 40, 4):
        await producer.send("one", b"%d" % i)
        await producer.send("one", b"%d" % (i + 1), headers={"a": b"b"})
        producer.send_nowait("one", b"%d" % (i + 2))
        await producer.send_batch("one", [b"%d" % (i + 3)])
    await producer.flush()
    assert numbers(kafka) == list(range(40))


async def test_through_retries(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A retried batch does not fall behind those sent after it."""
    with kafka.faults.error("NOT_ENOUGH_REPLICAS", times=2):
        for i in range(10):
            await producer.send("one", b"%d" % i)
            await turns(2)
        await producer.flush()
    assert numbers(kafka) == list(range(10))


@pytest.mark.parametrize("before", [True, False])
async def test_through_lost_connections(producer: Producer, kafka: EmbeddedKafka, before: bool) -> None:
    """A connection that ends, with the record written or not, neither reorders nor repeats."""
    with kafka.faults.cut(before=before, times=2):
        for i in range(30):
            await producer.send("one", b"%d" % i)
            if i % 10 == 5:
                await turns(4)
        await producer.flush()
    assert numbers(kafka) == list(range(30))


async def test_order_is_kept_in_each_partition(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Records with keys are in the order of the calls within each partition."""
    for i in range(400):
        await producer.send("four", b"%d" % i, key=b"%d" % (i % 17))
    await producer.flush()
    for partition in range(4):
        found = numbers(kafka, "four", partition)
        assert found == sorted(found)
    assert len(numbers(kafka, "four")) == 400

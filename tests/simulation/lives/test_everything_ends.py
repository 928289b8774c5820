"""Everything ends: after their use topics, brokers, time limits and serializers leave nothing in a producer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from functools import partial
from typing import Any, Final

import pytest

from aioproducer import KafkaError, Producer
from aioproducer._state.delivery.tally import KEPT_IN_DOUBT
from tests.effort import EFFORT
from tests.scenarios.support import TOPIC
from tests.simulation.lengths import lengths
from tests.simulation.world import World, simulate

SCALE: Final = {"few": 20, "all": 1000, "proof": 1000}[EFFORT]
QUIET: Final = 400.0
"""Seconds after which an idle producer has forgotten its unused state."""
SETTINGS: Final[dict[str, Any]] = {
    "metadata_max_idle_ms": 5_000,
    "connections_max_idle_ms": 20_000,
    "linger_ms": 0,
    "compression_type": "gzip",
}
BROKERS: Final = 3
BY_CONTRACT: Final = {
    # Statistics never shrink: so many topics by name, and so many kinds of failures with one for all others.
    "Tally.CountsByTopic": 1_001,
    "Tally.failed_by_kind": 1_100,
    # Their counters continue when the topics return.
    "Brokers.histories": 100,
    "Counters.brokers": 100,
    # Kept for reports that are still to come.
    "Tally._kept": 100,
    "Tally._in_doubt": KEPT_IN_DOUBT,
    # The brokers of the present cluster that did not answer the last connection attempt.
    "ClusterQueues.dead": BROKERS,
}


def grown(before: Counter[str], after: Counter[str]) -> dict[str, tuple[int, int]]:
    """The places whose containers are longer now."""
    return {
        place: (before[place], length)
        for place, length in after.items()
        if length > max(before[place], BY_CONTRACT.get(place, 0))
    }


async def _use(producer: Producer[Any, Any], topic: str, count: int = 1, **arguments: Any) -> None:
    for number in range(count):
        # Failures must leave nothing either.
        with contextlib.suppress(KafkaError):
            await producer.send_and_wait(topic, b"%d" % number, **arguments)


async def use_all(producer: Producer[Any, Any]) -> None:
    """Send to every broker, and then nothing for a while."""
    for partition in range(BROKERS):
        await _use(producer, TOPIC, 3, partition=partition)
    await asyncio.sleep(QUIET)


async def topics(world: World, producer: Producer[Any, Any]) -> None:
    """Topics that are used once, some of which refuse their records."""
    for number in range(SCALE):
        name = f"topic-{number}"
        world.kafka.create_topic(name, 2)
        world.forgotten.add(name)
        if number % 3 == 0:
            world.kafka.faults.error("INVALID_RECORD", topic=name)
        await _use(producer, name)


async def missing_topics(world: World, producer: Producer[Any, Any]) -> None:
    """Topics that do not exist."""
    for number in range(SCALE // 5):
        world.kafka.faults.error(
            "UNKNOWN_TOPIC_OR_PARTITION", api="Metadata", topic=f"missing-{number}", times=None
        )
        await _use(producer, f"missing-{number}", max_block=0.5)
    world.kafka.faults.heal()


async def brokers(world: World, producer: Producer[Any, Any]) -> None:
    """Brokers that are replaced: the same addresses with new ids each time; one cannot be reached."""
    for generation in range(1, SCALE):
        world.kafka.faults.heal()
        world.kafka.faults.alter(partial(_replaced, generation=generation), api="Metadata", times=None)
        await asyncio.sleep(31)
        for partition in range(BROKERS):
            await _use(producer, TOPIC, 1, partition=partition, timeout=3.0)
    world.kafka.faults.heal()


def _replaced(answer: Any, generation: int) -> Any:
    by, stranger = BROKERS * generation, 100_000 + generation
    listed = [broker._replace(node_id=broker.node_id + by) for broker in answer.brokers]
    listed.append(listed[0]._replace(node_id=stranger, port=20_000 + generation))
    leaders = {partition: partition + 1 + by for partition in range(BROKERS - 1)} | {BROKERS - 1: stranger}
    return answer._replace(
        brokers=listed,
        topics=[
            topic._replace(
                partitions=[
                    part._replace(leader_id=leaders[part.partition_index], leader_epoch=-1)
                    for part in topic.partitions
                ]
            )
            for topic in answer.topics
        ],
    )


async def time_limits(world: World, producer: Producer[Any, Any]) -> None:
    """Records with time limits of their own; some expire by them."""
    for _ in range(SCALE):
        deliveries = [await producer.send(TOPIC, b"", timeout=300.0) for _ in range(100)]
        await asyncio.gather(*deliveries)
    world.kafka.faults.silence(api="Produce", times=3)
    late = [await producer.send(TOPIC, b"", timeout=0.5) for _ in range(100)]
    await asyncio.gather(*late, return_exceptions=True)


async def tasks(world: World, producer: Producer[Any, Any]) -> None:
    """Tasks that each send and flush, and scopes."""

    async def one() -> None:
        async with producer.scope() as scope:
            await producer.send(TOPIC, b"")
            await scope.flush()
        await producer.flush()

    for _ in range(SCALE):
        await asyncio.gather(*(one() for _ in range(10)))


@pytest.mark.parametrize(
    "happening", [topics, missing_topics, brokers, time_limits, tasks], ids=lambda one: str(one.__name__)
)
def test_nothing_is_left(happening: Any) -> None:
    """After a quiet time no container of the producer is longer than before."""

    async def play(world: World) -> None:
        world.forgotten.add(TOPIC)
        world.kafka.create_topic(TOPIC, BROKERS)
        producer = world.producer(**SETTINGS)
        await producer.start(wait_ready=5)
        for _ in range(2):
            await use_all(producer)
        before = lengths(producer)
        await happening(world, producer)
        await asyncio.sleep(QUIET)
        await use_all(producer)
        assert grown(before, lengths(producer)) == {}

    simulate(play, 1)


def test_serializers_that_hang_leave_nothing() -> None:
    """Calls whose serializers never end are refused in time, and the tasks of the serializers end."""

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, BROKERS)
        hang = itertools.count()

        async def serialize(data: bytes) -> bytes:
            if next(hang) and data:
                await asyncio.get_running_loop().create_future()
            return data

        world.forgotten.add(TOPIC)
        producer = world.producer(value_serializer=serialize, **SETTINGS)
        await producer.start(wait_ready=5)
        await _use(producer, TOPIC, 1)
        await asyncio.sleep(QUIET)
        before = lengths(producer)
        for _ in range(SCALE):
            await asyncio.gather(*(_use(producer, TOPIC, 1, max_block=0.2) for _ in range(10)))
        await asyncio.sleep(QUIET)
        assert grown(before, lengths(producer)) == {}

    simulate(play, 1)

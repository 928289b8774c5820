"""A broker that is cut off from the others, and names a former coordinator or none: the other brokers are asked."""

from __future__ import annotations

from typing import Any, Final

import pytest

from aioproducer import Producer, fence
from tests.simulation.world import World, simulate

TOPIC: Final = "t"
NAME: Final = "books"
NOBODY_LISTENS: Final = 1
"""A port."""
AT_MOST: Final = 3.0
"""Seconds, as for a coordinator that moves."""
GROUP: Final = "readers"


def _names_none(answer: Any) -> Any:
    return answer._replace(
        coordinators=[
            one._replace(error_code=15, node_id=-1, host="", port=-1) for one in answer.coordinators
        ]
    )


def _names_a_former_one(answer: Any) -> Any:
    return answer._replace(coordinators=[one._replace(port=NOBODY_LISTENS) for one in answer.coordinators])


OUTDATED: Final = [_names_none, _names_a_former_one]


async def _stage(world: World) -> Producer[Any, Any]:
    world.forgotten.add(TOPIC)
    world.kafka.create_topic(TOPIC, 1)
    producer = world.producer(transactional_id=NAME, linger_ms=0)
    await producer.start()
    await producer.init_transactions()
    return producer


def _cut_off(world: World, broker: int, outdated: Any) -> None:
    world.kafka.faults.alter(outdated, api="FindCoordinator", broker=broker, times=None)
    for key in (NAME, GROUP):
        world.kafka.faults.move_coordinator(key, broker % 3 + 1)
    world.kafka.faults.drop_connections(broker % 3 + 1)


def _asked(world: World, producer: Producer[Any, Any]) -> int:
    """The broker that the producer asks for coordinators."""
    address = producer._running().control.address
    return next(one.id for one in world.kafka.brokers if address is not None and one.port == address[1])


@pytest.mark.parametrize("outdated", OUTDATED)
@pytest.mark.parametrize("version", [1, 2])
def test_a_commit(version: int, outdated: Any) -> None:
    """Of records and offsets: it needs the coordinators of both."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        async with producer.transaction() as tx:
            await (await producer.send(TOPIC, b"first", partition=0))
            tx.send_offsets({(TOPIC, 0): 1}, GROUP)
            _cut_off(world, _asked(world, producer), outdated)
            began = world.now
        assert world.now - began < AT_MOST
        assert [record.value for record in world.kafka.records(TOPIC)] == [b"first"]

    simulate(play, 1, transaction_version=version)


@pytest.mark.parametrize("outdated", OUTDATED)
def test_calls_without_a_producer(outdated: Any) -> None:
    """A session begins with any of the bootstrap servers."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        async with producer.transaction() as tx:
            await (await producer.send(TOPIC, b"first", partition=0))
            handle = await tx.detach()
        _cut_off(world, 1, outdated)
        began = world.now
        await handle.commit(world.kafka.bootstrap_servers, timeout=60)
        for _ in range(10):
            await fence([NAME], world.kafka.bootstrap_servers, timeout=60)
        assert world.now - began < 10 * AT_MOST
        assert [record.value for record in world.kafka.records(TOPIC)] == [b"first"]

    simulate(play, 1, transaction_version=2)

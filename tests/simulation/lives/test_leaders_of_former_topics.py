"""Leader epochs of a deleted topic do not keep the records of its successor from their leader."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer import MetadataTimeoutError, Outcome, Producer
from tests.net.support import engine, until
from tests.simulation.world import World, simulate

TOPIC = "t"
BEFORE_IDS = 9
"""The last version of Metadata that has no topic ids."""


async def _after_many_elections(world: World) -> Producer[Any, Any]:
    """A producer that has seen four elections; broker 2 leads now."""
    world.forgotten.add(TOPIC)
    world.kafka.create_topic(TOPIC, 1)
    producer = world.producer(request_timeout_ms=10_000)
    await producer.start()
    for leader in (1, 2, 3, 1, 2):
        world.kafka.faults.move_leader(TOPIC, 0, leader)
        await producer.send_and_wait(TOPIC, b"before", partition=0)
    # The refusal of the former leader is over when an answer has confirmed the present one.
    interest = engine(producer).view._questions.interests[TOPIC]
    await until(lambda: not interest.leader_failed)
    return producer


def _remake(world: World, leader: int) -> None:
    world.kafka.delete_topic(TOPIC)
    world.kafka.create_topic(TOPIC, 1)
    world.kafka.faults.move_leader(TOPIC, 0, leader)


async def _gets_in(producer: Producer[Any, Any], number: int) -> None:
    delivery = await producer.send(TOPIC, b"%d" % number, partition=0)
    assert await delivery.wait(60) is Outcome.ACKED, delivery.exception()


def test_a_late_hint_about_a_deleted_topic() -> None:
    """A late answer for the deleted topic arrives: its high epoch would outrank every later election."""

    async def play(world: World) -> None:
        producer = await _after_many_elections(world)
        held = world.kafka.faults.delay(api="Produce")
        world.kafka.faults.move_leader(TOPIC, 0, 3)
        await producer.send(TOPIC, b"on its way", partition=0)
        await held.reached()
        _remake(world, 1)
        known = engine(producer).view
        before = known.topic(TOPIC)
        engine(producer).cluster.stale(TOPIC)
        await until(lambda: known.topic(TOPIC) is not before)
        held.heal()
        began = world.now
        await _gets_in(producer, 0)
        assert world.now < began + 1.0

    simulate(play, 1)


@pytest.mark.parametrize("down", [False, True], ids=["former leader refuses", "former leader is down"])
def test_a_topic_that_was_made_anew_without_ids(down: bool) -> None:
    """No answer shows that it is another topic; the producer sends nothing meanwhile, and the leader is another broker."""

    async def play(world: World) -> None:
        world.kafka.limit_version("Metadata", 0, BEFORE_IDS)
        producer = await _after_many_elections(world)
        if down:
            await world.kafka.faults.stop_broker(2)
            # A request that is lost with its connection would reveal the topic; here only the dialing fails.
            sender = engine(producer).senders[2]
            await until(lambda: sender.link is None)
        _remake(world, 1)
        await _gets_in(producer, 0)
        world.kafka.faults.move_leader(TOPIC, 0, 3)
        began = world.now
        await _gets_in(producer, 1)
        assert world.now < began + 1.0
        assert [record.value for record in world.kafka.records(TOPIC)] == [b"0", b"1"]

    simulate(play, 1)


def test_a_topic_that_was_made_anew_with_fewer_partitions_without_ids() -> None:
    """After the doubt no record is meant for a partition that is gone; those before it end with an error that says that they were not written."""

    async def play(world: World) -> None:
        world.kafka.limit_version("Metadata", 0, BEFORE_IDS)
        world.forgotten.add(TOPIC)
        world.kafka.create_topic(TOPIC, 4)
        producer = world.producer(delivery_timeout_ms=10_000)
        await producer.start()
        for index in range(4):
            await producer.send_and_wait(TOPIC, b"before", partition=index)
        world.kafka.delete_topic(TOPIC)
        world.kafka.create_topic(TOPIC, 1)
        lost = [await producer.send(TOPIC, b"lost", partition=index) for index in (1, 3)]
        assert [await delivery.wait(60) for delivery in lost] == [Outcome.NOT_WRITTEN] * 2
        for number in range(20):
            delivery = await producer.send(TOPIC, b"%d" % number, key=b"%d" % number)
            assert await delivery.wait(60) is Outcome.ACKED, delivery.exception()
        with pytest.raises(MetadataTimeoutError, match="the partition does not exist"):
            await producer.send(TOPIC, b"nowhere", partition=3)
        world.kafka.add_partitions(TOPIC, 4)
        await producer.send_and_wait(TOPIC, b"again", partition=3)
        assert [record.value for record in world.kafka.records(TOPIC) if record.partition == 3] == [b"again"]

    simulate(play, 1, auto_create_topics=False)

"""Missing topics and partitions, in virtual time: the waits, their durations, and the errors and log lines about them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from aioproducer import (
    AuthorizationError,
    BrokerError,
    BrokerUnavailableError,
    KafkaError,
    MetadataTimeoutError,
    RecordError,
)
from tests.scenarios.support import TOPIC, scenario, send, stage
from tests.simulation.world import World

MAX_BLOCK: Final = 5.0
AT_ONCE: Final = 1.5
"""Seconds of virtual time: far from `max_block`, with room for the pauses between metadata requests."""


async def refused(
    world: World, producer: Any, topic: str = TOPIC, **arguments: Any
) -> tuple[KafkaError, float]:
    """The error of a refused record, and the time until the refusal."""
    began, number = world.now, len(world.ledger.entries)
    assert await world.ledger.send(producer, topic, **arguments) is None
    error = world.ledger.entries[number].error
    assert isinstance(error, KafkaError)
    return error, world.now - began


def code_of(error: BaseException) -> int | None:
    """The broker's code behind an error."""
    cause = error.__cause__
    return cause.code if isinstance(cause, BrokerError) else None


def about_topic(world: World, word: str) -> list[str]:
    """The warnings that name a topic."""
    return [line for line in world.warnings() if word in line]


def answered(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A Metadata answer with this change of its entry of `TOPIC`."""

    def altered(answer: Any) -> Any:
        topics = [change(topic) if topic.name == TOPIC else topic for topic in answer.topics]
        return answer._replace(topics=topics)

    return altered


def with_code(code: int) -> Callable[[Any], Any]:
    """An answer to Metadata with an error for `TOPIC`."""
    return answered(lambda topic: topic._replace(error_code=code, partitions=[]))


def from_the_past(partitions: int) -> Callable[[Any], Any]:
    """A Metadata answer of a broker without knowledge of the newest partitions of `TOPIC`."""
    return answered(lambda topic: topic._replace(partitions=list(topic.partitions)[:partitions]))


@scenario(auto_create_topics=False)
async def test_g01_a_missing_topic_and_a_dead_cluster_are_distinct(world: World) -> None:
    """Both end after `max_block`: one with the brokers' code as cause, the other with the error of a connection."""
    producer = world.producer()
    await producer.start(wait_ready=5)
    error, waited = await refused(world, producer)
    assert isinstance(error, MetadataTimeoutError)
    assert (code_of(error), error.topic) == (3, TOPIC)
    assert "does not exist" in str(error)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(error)
    assert MAX_BLOCK <= waited <= MAX_BLOCK + 0.1
    for broker in world.kafka.brokers:
        await world.kafka.faults.stop_broker(broker.id)
    error, waited = await refused(world, producer)
    assert isinstance(error, MetadataTimeoutError)
    assert isinstance(error.cause, BrokerUnavailableError)
    assert "does not exist" not in str(error)
    assert MAX_BLOCK <= waited <= MAX_BLOCK + 0.1


@scenario(auto_create_topics=False)
async def test_g02_one_line_in_the_log(world: World) -> None:
    """The line comes while the record waits; repeated requests without success add none, and neither do brokers that disagree."""
    producer = world.producer()
    await producer.start(wait_ready=5)
    waiting = asyncio.ensure_future(refused(world, producer))
    await asyncio.sleep(0.5)
    (line,) = about_topic(world, f"topic {TOPIC}")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in line
    await waiting
    world.kafka.create_topic(TOPIC, 3)
    await send(world, producer)
    for broker in (1, 2):
        world.kafka.faults.hide_topic(TOPIC, broker=broker)
    for _ in range(30):
        await asyncio.sleep(1)
        producer._engine.cluster.stale(TOPIC)  # type: ignore[union-attr]  # as an error of a partition does
    assert len(about_topic(world, f"topic {TOPIC}")) == 1
    world.kafka.faults.show_topic(TOPIC)


@scenario()
async def test_g02_a_topic_that_the_brokers_create(world: World) -> None:
    """Their first answer is that they do not have it: that causes no warning."""
    producer = world.producer()
    await producer.start(wait_ready=5)
    (delivery,) = await send(world, producer)
    assert (await delivery).offset == 0
    assert world.warnings() == []


@scenario(auto_create_topics=False)
async def test_g02_a_topic_that_is_gone_again(world: World) -> None:
    """If the topic existed in between, the log has another line."""
    producer = world.producer(topics=[TOPIC])
    world.forgotten.add(TOPIC)
    await producer.start(wait_ready=5)
    for times in (1, 2):
        await asyncio.sleep(100)
        assert len(about_topic(world, f"topic {TOPIC}")) == times
        world.kafka.create_topic(TOPIC, 1, min_insync_replicas=1)
        await asyncio.sleep(100)
        world.kafka.delete_topic(TOPIC)


@scenario(auto_create_topics=False)
async def test_g03_a_topic_that_comes_in_time(world: World) -> None:
    """The call waits for it, and the record is written."""
    producer = world.producer()
    await producer.start(wait_ready=5)
    waiting = asyncio.ensure_future(send(world, producer))
    await asyncio.sleep(MAX_BLOCK - 1.5)
    world.kafka.create_topic(TOPIC, 1)
    (delivery,) = await waiting
    assert (await delivery).offset == 0


@pytest.mark.parametrize("known", [True, False], ids=["known-topic", "new-topic"])
@scenario()
async def test_g04_a_partition_that_is_not_there(world: World, known: bool) -> None:
    """The record is refused at once after a second request; the topic's other partitions are held up no longer than that."""
    world.kafka.create_topic(TOPIC, 3)
    producer = world.producer()
    await producer.start(wait_ready=5)
    if known:
        await producer.partitions_for(TOPIC)
        await asyncio.sleep(20)
    began = world.now
    missing = asyncio.ensure_future(refused(world, producer, partition=17))
    await asyncio.sleep(0)
    behind = await send(world, producer, partition=1)
    assert world.now - began < AT_ONCE
    error, waited = await missing
    assert waited < AT_ONCE
    assert isinstance(error, MetadataTimeoutError)
    assert (error.topic, error.partition, error.partition_count, code_of(error)) == (TOPIC, 17, 3, 3)
    assert "the topic has 3 partitions" in str(error)
    assert [(await delivery).partition for delivery in behind] == [1]
    assert about_topic(world, TOPIC) == []


@scenario()
async def test_g04_a_partition_that_was_never_asked_for(world: World) -> None:
    """Without time for a second request, the error does not state that the partition is missing."""
    producer = await stage(world, 3)
    error, waited = await refused(world, producer, partition=17, max_block=0)
    assert waited < 0.01
    assert isinstance(error, MetadataTimeoutError)
    assert error.partition_count == 3
    assert "does not exist" not in str(error)
    assert "did not become known in time" in str(error)


@scenario()
async def test_g05_a_partition_that_was_just_added(world: World) -> None:
    """A broker without knowledge of it is asked again."""
    producer = await stage(world, 2)
    await asyncio.sleep(20)
    world.kafka.add_partitions(TOPIC, 3)
    world.kafka.faults.alter(from_the_past(2), api="Metadata", times=1)
    (delivery,) = await send(world, producer, partition=2)
    assert (await delivery).partition == 2


@scenario()
async def test_g06_an_answer_to_an_older_question(world: World) -> None:
    """A request from before the call proves nothing about the time of the call."""
    producer = await stage(world, 2)
    await asyncio.sleep(20)
    held = world.kafka.faults.delay(api="Metadata", times=1)
    producer._engine.cluster.stale(TOPIC)  # type: ignore[union-attr]
    await held.reached()
    world.kafka.add_partitions(TOPIC, 3)
    await asyncio.sleep(0.5)
    waiting = asyncio.ensure_future(send(world, producer, partition=2))
    await asyncio.sleep(0.2)
    held.release()
    ((delivery,),) = await asyncio.gather(waiting)
    assert (await delivery).partition == 2


@scenario()
async def test_g07_a_partition_of_a_cluster_that_is_dead(world: World) -> None:
    """No broker confirmed that it is missing: the call waits, and its error is that of the connection."""
    producer = await stage(world, 2)
    for broker in world.kafka.brokers:
        await world.kafka.faults.stop_broker(broker.id)
    error, waited = await refused(world, producer, partition=5)
    assert MAX_BLOCK <= waited <= MAX_BLOCK + 0.1
    assert isinstance(error.cause, BrokerUnavailableError)


@scenario(auto_create_topics=False)
async def test_g08_a_topic_that_disappears_while_a_partition_is_waited_for(world: World) -> None:
    """The brokers then answer that the topic is missing; it may be created again, so the call waits for it."""
    producer = await stage(world, 2)
    await asyncio.sleep(20)
    world.kafka.delete_topic(TOPIC)
    error, waited = await refused(world, producer, partition=5)
    assert MAX_BLOCK <= waited <= MAX_BLOCK + 0.1
    assert code_of(error) == 3
    assert len(about_topic(world, f"topic {TOPIC}")) == 1
    world.kafka.create_topic(TOPIC, 6, min_insync_replicas=1)
    (delivery,) = await send(world, producer, partition=5)
    assert (await delivery).partition == 5


@scenario(auto_create_topics=False)
async def test_g09_a_topic_that_is_made_anew_with_fewer_partitions(world: World) -> None:
    """A former partition is refused at once, with the present count."""
    producer = await stage(world, 4)
    await asyncio.sleep(20)
    world.forgotten.add(TOPIC)
    world.kafka.delete_topic(TOPIC)
    world.kafka.create_topic(TOPIC, 2)
    producer._engine.cluster.stale(TOPIC)  # type: ignore[union-attr]
    await asyncio.sleep(1)
    error, waited = await refused(world, producer, partition=3)
    assert waited < AT_ONCE
    assert isinstance(error, MetadataTimeoutError)
    assert error.partition_count == 2


@scenario()
async def test_g10_a_topic_without_leaders_yet(world: World) -> None:
    """The call waits during LEADER_NOT_AVAILABLE, which is the cause if it lasts."""
    producer = world.producer()
    await producer.start(wait_ready=5)
    world.kafka.create_topic(TOPIC, 1)
    fault = world.kafka.faults.alter(with_code(5), api="Metadata", times=None)
    error, waited = await refused(world, producer)
    assert (code_of(error), isinstance(error, MetadataTimeoutError)) == (5, True)
    assert "does not exist" not in str(error)
    assert MAX_BLOCK <= waited <= MAX_BLOCK + 0.1
    fault.heal()
    (delivery,) = await send(world, producer)
    await delivery


@pytest.mark.parametrize(("code", "expected"), [(17, RecordError), (29, AuthorizationError)])
@scenario()
async def test_g11_what_waiting_does_not_change(world: World, code: int, expected: type[KafkaError]) -> None:
    """The call fails at once, with the brokers' code as cause, and the log has no line about it."""
    producer = world.producer()
    await producer.start(wait_ready=5)
    world.kafka.faults.alter(with_code(code), api="Metadata", times=None)
    error, waited = await refused(world, producer)
    assert waited < AT_ONCE
    assert (type(error), code_of(error)) == (expected, code)
    assert about_topic(world, f"topic {TOPIC}") == []

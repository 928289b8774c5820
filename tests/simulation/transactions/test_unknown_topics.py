"""Topics that coordinators do not know, yet or any more: no transaction fails for a delay, and no commit waits without end."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from aioproducer import (
    AuthorizationError,
    BrokerError,
    CommitOutcomeUnknownError,
    KafkaError,
    Outcome,
    Producer,
    TransactionAbortedError,
)
from aioproducer._wire.error_codes import ErrorCode
from tests.simulation.world import World, simulate

OLD, NEW, GROUP = "old", "new", "readers"
NAME: Final = "books"
UNKNOWN: Final = "UNKNOWN_TOPIC_OR_PARTITION"
ATTEMPTS: Final = 20


async def _stage(world: World, **settings: Any) -> Producer[Any, Any]:
    world.forgotten.update((OLD, NEW))
    for topic in (OLD, NEW):
        world.kafka.create_topic(topic, 1)
    # One request adds the partitions of both topics.
    producer = world.producer(transactional_id=NAME, linger_ms=5, topics=[OLD, NEW], **settings)
    await producer.start(wait_ready=5)
    await producer.init_transactions()
    return producer


async def _send_to(producer: Producer[Any, Any], *topics: str) -> None:
    for topic in topics:
        await producer.send(topic, topic.encode(), partition=0)


def _committed(world: World, *topics: str) -> list[bytes | None]:
    return [record.value for topic in topics for record in world.kafka.records(topic)]


async def _works(world: World, producer: Producer[Any, Any]) -> None:
    async with producer.transaction():
        await producer.send(OLD, b"after", partition=0)
    assert _committed(world, OLD)[-1] == b"after"


def test_a_new_topic_beside_others() -> None:
    """The coordinator learns of it a moment later. It attempts none of the partitions before, which is no failure of them."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        unknown = world.kafka.faults.error(UNKNOWN, api="AddPartitionsToTxn", topic=NEW, times=3)
        async with producer.transaction():
            await _send_to(producer, OLD, NEW)
        assert unknown.hits == 3
        assert _committed(world, OLD, NEW) == [b"old", b"new"]

    simulate(play, 1, transaction_version=1)


def test_the_error_names_the_partition_at_fault() -> None:
    """Not those that were not attempted because of it."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        world.kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="AddPartitionsToTxn", topic=NEW)
        with pytest.raises(TransactionAbortedError) as caught:
            async with producer.transaction():
                await _send_to(producer, OLD, NEW)
        assert isinstance(caught.value.cause, AuthorizationError)
        await _works(world, producer)

    simulate(play, 1, transaction_version=1)


@pytest.mark.parametrize("others", [(), (OLD,)])
def test_withdrawn_records_of_an_unknown_topic(others: tuple[str, ...]) -> None:
    """Nothing waits for the partition any more, so the commit does not wait for it either."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        world.kafka.faults.error(UNKNOWN, api="AddPartitionsToTxn", topic=NEW, times=None)
        await producer.begin_transaction()
        await _send_to(producer, *others, NEW)
        await asyncio.sleep(1)
        assert producer.purge(NEW) == 1
        await producer.commit_transaction()
        assert _committed(world, OLD, NEW) == [b"old"] * len(others)
        await _works(world, producer)

    simulate(play, 1, transaction_version=1)


def test_withdrawn_records_of_a_topic_behind_an_unknown_one() -> None:
    """Its partition is not added after the end: at the time limit, the producer would be taken for one that was fenced."""

    async def play(world: World) -> None:
        producer = await _stage(world, transaction_timeout_ms=10_000)
        unknown = world.kafka.faults.error(UNKNOWN, api="AddPartitionsToTxn", topic=NEW, times=4)
        await producer.begin_transaction()
        await _send_to(producer, NEW)
        await unknown.reached()
        await _send_to(producer, OLD)
        assert producer.purge() == 2
        await producer.commit_transaction()
        await asyncio.sleep(30)
        assert [each.state for each in await producer.list_transactions()] == ["Empty"]
        await _works(world, producer)

    simulate(play, 1, transaction_version=1)


def test_withdrawn_records_behind_an_answer_that_proves_nothing() -> None:
    """The coordinator may have added the partition: the transaction is aborted, and not taken for another producer's."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        lost = world.kafka.faults.cut(api="AddPartitionsToTxn")
        world.kafka.faults.error(UNKNOWN, api="AddPartitionsToTxn", topic=NEW, skip=1, times=None)
        with pytest.raises(TransactionAbortedError, match=UNKNOWN):
            async with producer.transaction():
                await _send_to(producer, NEW)
                await lost.reached()
                await asyncio.sleep(1)
                assert producer.purge(NEW) == 1
        await _works(world, producer)

    simulate(play, 1, transaction_version=1)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("with_record", [False, True])
def test_offsets_of_a_topic_that_was_deleted(version: int, *, with_record: bool) -> None:
    """The transaction is aborted. Its commit, repeated until it has an answer, was of unknown outcome without end."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        transaction = producer.transaction()
        tx = await transaction.__aenter__()
        if with_record:
            await _send_to(producer, OLD)
        tx.send_offsets({(NEW, 0): 5, (OLD, 0): 6}, GROUP)
        world.kafka.delete_topic(NEW)
        error = await _end_of(producer)
        assert isinstance(error, TransactionAbortedError)
        assert (error.retriable, error.outcome) == (False, Outcome.NOT_WRITTEN)
        assert isinstance(error.cause, BrokerError)
        assert error.cause.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await producer.abort_transaction()
        assert world.kafka.committed_offset(GROUP, OLD) is None
        await _works(world, producer)

    simulate(play, 1, transaction_version=version)


async def _end_of(producer: Producer[Any, Any]) -> KafkaError | None:
    """The result of a commit that is repeated as documented."""
    for _ in range(ATTEMPTS):
        try:
            await producer.commit_transaction()
        except CommitOutcomeUnknownError:
            continue
        except KafkaError as error:
            return error
        return None
    raise AssertionError("the commit has no end")


@pytest.mark.parametrize("version", [1, 2])
def test_offsets_of_a_topic_that_is_unknown_for_a_while(version: int) -> None:
    """They are committed when the brokers know it, also where another answer comes between."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        for times in (4, 8):
            world.kafka.faults.error(UNKNOWN, api="TxnOffsetCommit", topic=NEW, times=times)
            world.kafka.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api="TxnOffsetCommit", times=1)
        async with producer.transaction(timeout=60) as tx:
            tx.send_offsets({(NEW, 0): 5}, GROUP)
        assert world.kafka.committed_offset(GROUP, NEW) == 5

    simulate(play, 1, transaction_version=version)

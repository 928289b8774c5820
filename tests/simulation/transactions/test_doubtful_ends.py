"""Behind a commit without an answer, `init_transactions()` settles the doubt, and the producer goes on."""

from __future__ import annotations

from typing import Any, Final

import pytest

from aioproducer import (
    CommitOutcomeUnknownError,
    Outcome,
    Producer,
    ProducerFencedError,
    TransactionTimeoutError,
)
from aioproducer._state.identity.standing import LAST_EPOCH
from tests.simulation.world import World, simulate

TOPIC: Final = "t"
NAME: Final = "books"


async def _producer(world: World) -> Producer[Any, Any]:
    producer = world.producer(transactional_id=NAME, linger_ms=0)
    await producer.start()
    await producer.init_transactions()
    return producer


async def _open(world: World, producer: Producer[Any, Any]) -> None:
    world.forgotten.add(TOPIC)
    world.kafka.create_topic(TOPIC, 1)
    await producer.begin_transaction()
    await (await producer.send(TOPIC, b"first", partition=0))


async def _goes_on(world: World, producer: Producer[Any, Any], *, committed: bool) -> None:
    await producer.init_transactions()
    async with producer.transaction():
        await producer.send(TOPIC, b"after", partition=0)
    first = [b"first"] if committed else []
    assert [record.value for record in world.kafka.records(TOPIC)] == [*first, b"after"]


@pytest.mark.parametrize("executed", [True, False])
def test_a_commit_without_an_answer_at_the_last_epoch(*, executed: bool) -> None:
    """On version 2 its answer had another producer id."""

    async def play(world: World) -> None:
        await _producer(world)
        known = world.kafka._cluster.transactions.get(NAME)
        assert known is not None
        known.epoch = LAST_EPOCH - 1
        producer = await _producer(world)
        assert known.epoch == LAST_EPOCH
        await _open(world, producer)
        world.kafka.faults.cut(api="EndTxn", before=not executed)
        refused = world.kafka.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api="EndTxn", skip=1, times=None)
        with pytest.raises(CommitOutcomeUnknownError):
            await producer.commit_transaction(timeout=1)
        refused.heal()
        await _goes_on(world, producer, committed=executed)

    simulate(play, 1, transaction_version=2)


@pytest.mark.parametrize("ends", [False, True])
def test_a_successor_with_the_new_producer_id(*, ends: bool) -> None:
    """Its epochs begin at 0 as well: it is left alone."""

    async def play(world: World) -> None:
        await _producer(world)
        known = world.kafka._cluster.transactions.get(NAME)
        assert known is not None
        known.epoch = LAST_EPOCH - 1
        producer = await _producer(world)
        await _open(world, producer)
        world.kafka.faults.cut(api="EndTxn")
        refused = world.kafka.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api="EndTxn", skip=1, times=None)
        with pytest.raises(CommitOutcomeUnknownError):
            await producer.commit_transaction(timeout=1)
        refused.heal()
        successor = await _producer(world)
        await successor.begin_transaction()
        await (await successor.send(TOPIC, b"of the successor", partition=0))
        if ends:
            await successor.commit_transaction()
        with pytest.raises(ProducerFencedError) as caught:
            await producer.init_transactions()
        assert caught.value.outcome is Outcome.UNKNOWN
        if not ends:
            await successor.commit_transaction()
        values = [record.value for record in world.kafka.records(TOPIC)]
        assert values == [b"first", b"of the successor"]

    simulate(play, 1, transaction_version=2)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("executed", [True, False])
def test_a_repeated_commit_that_can_only_be_aborted(version: int, *, executed: bool) -> None:
    """The first attempt may have been executed, so the outcome is unknown."""

    async def play(world: World) -> None:
        producer = await _producer(world)
        await _open(world, producer)
        world.kafka.faults.cut(api="EndTxn", before=not executed)
        world.kafka.faults.error("TRANSACTION_ABORTABLE", api="EndTxn", skip=1)
        with pytest.raises(CommitOutcomeUnknownError) as caught:
            await producer.commit_transaction()
        assert caught.value.outcome is Outcome.UNKNOWN
        await _goes_on(world, producer, committed=executed)

    simulate(play, 1, transaction_version=version)


@pytest.mark.parametrize("last", [False, True])
def test_an_epoch_without_an_answer_where_nothing_is_open(*, last: bool) -> None:
    """On version 2 EndTxn raises it. The request was executed, and the repeated one fails: no other producer has taken over."""

    async def play(world: World) -> None:
        producer = await _producer(world)
        known = world.kafka._cluster.transactions.get(NAME)
        assert known is not None
        if last:
            known.epoch = LAST_EPOCH - 2
            producer = await _producer(world)
        await _open(world, producer)
        await producer.commit_transaction()
        assert known.epoch == (LAST_EPOCH if last else 1)
        world.kafka.faults.cut(api="EndTxn")
        world.kafka.faults.error("UNKNOWN_SERVER_ERROR", api="EndTxn", skip=1)
        await _goes_on(world, producer, committed=True)

    simulate(play, 1, transaction_version=2)


def test_another_producer_takes_over_where_an_epoch_has_no_answer() -> None:
    """It is left alone, also when it has aborted a transaction."""

    async def play(world: World) -> None:
        producer = await _producer(world)
        await _open(world, producer)
        await producer.commit_transaction()
        world.kafka.faults.cut(api="EndTxn")
        failing = world.kafka.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api="EndTxn", skip=1, times=None)
        with pytest.raises(TransactionTimeoutError):
            await producer.init_transactions(timeout=1)
        failing.heal()
        successor = await _producer(world)
        await successor.begin_transaction()
        await (await successor.send(TOPIC, b"dropped", partition=0))
        await successor.abort_transaction()
        world.kafka.faults.error("UNKNOWN_SERVER_ERROR", api="EndTxn")
        with pytest.raises(ProducerFencedError):
            await producer.init_transactions()
        async with successor.transaction():
            await successor.send(TOPIC, b"after", partition=0)
        assert [record.value for record in world.kafka.records(TOPIC)] == [b"first", b"after"]

    simulate(play, 1, transaction_version=2)

"""The answer to the request that opens a transaction is lost, and the coordinator ends it at its time limit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer import Producer, ProducerFencedError, TransactionAbortedError
from tests.simulation.world import World, simulate

TOPIC, OTHER, SOURCE = "t", "other", "source"
NAME = "books"
GROUP = "readers"
LIMIT = 10.0
PAST_LIMIT = LIMIT + 2
CANNOT_KNOW = "or the transaction exceeded its time limit of 10 s"


class UnwantedError(Exception):
    """The program gives up the transaction."""


async def _stage(world: World, **settings: Any) -> Producer[Any, Any]:
    """A producer that has committed a transaction with the first partition."""
    world.forgotten.update((TOPIC, OTHER, SOURCE))
    world.kafka.create_topic(SOURCE, 1)
    world.kafka.create_topic(OTHER, 1)
    world.kafka.create_topic(TOPIC, 2)
    producer = world.producer(
        transactional_id=NAME, transaction_timeout_ms=1000 * int(LIMIT), linger_ms=0, **settings
    )
    await producer.start()
    async with producer.transaction():
        await producer.send(TOPIC, b"before", partition=0)
    await producer.partitions_for(OTHER)
    return producer


def _remake(world: World) -> None:
    """The topic loses its second partition, which no request can add to a transaction any more."""
    world.kafka.delete_topic(TOPIC)
    world.kafka.create_topic(TOPIC, 1)


async def _open_without_an_answer(world: World, producer: Producer[Any, Any]) -> None:
    """The coordinator has opened it, and refuses each repetition of the request."""
    lost = world.kafka.faults.cut(api="AddPartitionsToTxn", times=1)
    await producer.begin_transaction()
    await producer.send(TOPIC, b"nowhere", partition=1)
    await lost.reached()
    _remake(world)


async def _works(world: World, producer: Producer[Any, Any]) -> None:
    async with producer.transaction():
        await producer.send(OTHER, b"after")
    assert [record.value for record in world.kafka.records(OTHER)] == [b"after"]


async def _abort_one(producer: Producer[Any, Any]) -> None:
    with pytest.raises(UnwantedError):
        async with producer.transaction():
            await (await producer.send(OTHER, b"dropped"))
            raise UnwantedError


async def _successor(world: World) -> Producer[Any, Any]:
    producer = world.producer(transactional_id=NAME, transaction_timeout_ms=1000 * int(LIMIT), linger_ms=0)
    await producer.start()
    await producer.init_transactions()
    return producer


def _state(world: World) -> str:
    view = world.kafka.transaction(NAME)
    assert view is not None
    return view.state


@pytest.mark.parametrize("call", ["abort_transaction", "init_transactions"])
@pytest.mark.parametrize("expires_after_ms", [3_000, 20_000])
def test_a_transaction_that_ended_at_its_limit_is_not_taken_for_a_successors(
    call: str, expires_after_ms: int
) -> None:
    """The records expire before the limit or after it, the call follows later, and the next transaction works."""

    async def play(world: World) -> None:
        producer = await _stage(world, delivery_timeout_ms=expires_after_ms)
        await _open_without_an_answer(world, producer)
        await asyncio.sleep(PAST_LIMIT + 10)
        assert _state(world) == "CompleteAbort"
        await getattr(producer, call)()
        await _works(world, producer)

    simulate(play, 1, transaction_version=1)


def test_it_is_asked_also_after_the_transaction_has_failed() -> None:
    """No broker answers until the record has expired; then its owner waits until the limit is over."""

    async def play(world: World) -> None:
        producer = await _stage(world, delivery_timeout_ms=3_000)
        await _open_without_an_answer(world, producer)
        for broker in world.kafka.brokers:
            world.network.hold(broker.port)
        await asyncio.sleep(4)
        for broker in world.kafka.brokers:
            world.network.release(broker.port)
        await asyncio.sleep(PAST_LIMIT)
        await producer.abort_transaction()
        await _works(world, producer)

    simulate(play, 1, transaction_version=1)


def test_a_later_partition_is_no_first_one() -> None:
    """The coordinator is known to have it open: the lost answer about another partition changes nothing."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        await producer.begin_transaction()
        await (await producer.send(TOPIC, b"a", partition=0))
        lost = world.kafka.faults.cut(api="AddPartitionsToTxn", before=True, times=1)
        nowhere = world.kafka.faults.cut(api="FindCoordinator", before=True, times=None)
        await producer.send(OTHER, b"b")
        await lost.reached()
        await asyncio.sleep(PAST_LIMIT)
        nowhere.heal()
        with pytest.raises(TransactionAbortedError, match="only be aborted"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await _works(world, producer)

    simulate(play, 1, transaction_version=1)


@pytest.mark.parametrize("version", [1, 2])
def test_offsets_that_opened_it_without_an_answer(version: int) -> None:
    """On version 1 AddOffsetsToTxn opens it, on version 2 TxnOffsetCommit."""
    api = "AddOffsetsToTxn" if version == 1 else "TxnOffsetCommit"

    async def play(world: World) -> None:
        producer = await _stage(world)
        lost = world.kafka.faults.cut(api=api, times=1)
        refused = world.kafka.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api=api, skip=1, times=20)
        await producer.begin_transaction()
        sending = asyncio.create_task(
            producer.send_offsets_to_transaction({(SOURCE, 0): 1}, GROUP, timeout=60)
        )
        await lost.reached()
        await refused.reached()
        await asyncio.sleep(PAST_LIMIT + 10)
        with pytest.raises(TransactionAbortedError):
            await sending
        await producer.abort_transaction()
        await _works(world, producer)

    simulate(play, 1, transaction_version=version)


@pytest.mark.parametrize("executed", [True, False])
@pytest.mark.parametrize("call", ["abort_transaction", "init_transactions"])
def test_a_successor_is_left_alone(call: str, *, executed: bool) -> None:
    """It takes over while the opening has no answer, and aborts a transaction of its own: the first producer is fenced."""

    async def play(world: World) -> None:
        producer = await _stage(world, delivery_timeout_ms=3_000)
        lost = world.kafka.faults.cut(api="AddPartitionsToTxn", before=not executed, times=1)
        await producer.begin_transaction()
        await producer.send(TOPIC, b"nowhere", partition=1)
        await lost.reached()
        _remake(world)
        successor = await _successor(world)
        for _ in range(2):
            await _abort_one(successor)
        await asyncio.sleep(4)
        with pytest.raises(ProducerFencedError):
            await getattr(producer, call)(timeout=60)
        await _works(world, successor)

    simulate(play, 1, transaction_version=1)


@pytest.mark.parametrize("is_own", [True, False])
def test_what_nobody_can_know_is_said_so(*, is_own: bool) -> None:
    """Nothing was answered until the limit: its own transaction and that of a successor leave the same state.

    The producer ends, as it must not end a transaction of a successor; its error names both.
    """

    async def play(world: World) -> None:
        producer = await _stage(world, delivery_timeout_ms=3_000)
        lost = world.kafka.faults.cut(api="AddPartitionsToTxn", before=not is_own, times=1)
        held = world.kafka.faults.cut(api="FindCoordinator", before=True, times=None)
        await producer.begin_transaction()
        await producer.send(TOPIC, b"nowhere", partition=1)
        await lost.reached()
        await held.reached()
        successor = None
        if not is_own:
            held.heal()
            silent = world.kafka.faults.error("NOT_COORDINATOR", api="DescribeTransactions")
            refused = world.kafka.faults.error("NOT_COORDINATOR", api="AddPartitionsToTxn", times=None)
            successor = await _successor(world)
            refused.heal()
            await _abort_one(successor)
            silent.heal()
        await asyncio.sleep(PAST_LIMIT)
        assert _state(world) == "CompleteAbort"
        held.heal()
        with pytest.raises(ProducerFencedError, match=CANNOT_KNOW) as caught:
            await producer.abort_transaction(timeout=60)
        assert "create a new one" in str(caught.value)
        await producer.close()
        await _works(world, successor or await _successor(world))

    simulate(play, 1, transaction_version=1)

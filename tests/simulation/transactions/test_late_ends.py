"""Late markers behind a commit, and requests for a deleted partition: no producer is fenced, no call hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer import CommitOutcomeUnknownError, Producer, TransactionAbortedError
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.cluster.transactions import Identity, TransactionRefusal, Transactions
from tests.simulation.world import World, simulate

TOPIC = "t"
NAME = "books"
LATE = 3.0
LAST_EPOCH = 32766


async def _stage(world: World, **settings: Any) -> Producer[Any, Any]:
    world.forgotten.update((TOPIC, "other"))
    world.kafka.create_topic(TOPIC, 2)
    producer = world.producer(transactional_id=NAME, linger_ms=0, max_block_ms=20_000, **settings)
    await producer.start()
    return producer


async def _committed_late(world: World, producer: Producer[Any, Any], value: bytes) -> None:
    world.kafka.faults.delay_markers(LATE)
    async with producer.transaction():
        await producer.send(TOPIC, value, partition=0)


def _seen(world: World) -> list[bytes | None]:
    return [record.value for record in world.kafka.records(TOPIC)]


@pytest.mark.parametrize("version", [1, 2])
def test_a_new_epoch_is_asked_for_while_markers_are_written(version: int) -> None:
    """Kafka refuses the epoch that it has just given, as if another producer owned it: the request is repeated."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        await _committed_late(world, producer, b"a")
        await producer.init_transactions()
        await _committed_late(world, producer, b"b")
        await asyncio.sleep(LATE)
        assert _seen(world) == [b"a", b"b"]

    simulate(play, version, transaction_version=version)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("begins_at", [0, LAST_EPOCH - 1])
def test_an_abort_while_markers_are_written(version: int, begins_at: int) -> None:
    """The leader held the records back; also when the epochs are used up, and another producer id follows."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        await producer.init_transactions()
        known = world.kafka._cluster.transactions.get(NAME)
        assert known is not None
        known.epoch = begins_at
        await producer.init_transactions("other")
        await producer.init_transactions(NAME)
        await _committed_late(world, producer, b"a")
        await producer.begin_transaction()
        await producer.send(TOPIC, b"dropped", partition=0)
        await asyncio.sleep(0.1)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(TOPIC, b"b", partition=0)
        assert _seen(world) == [b"a", b"b"]

    simulate(play, version, transaction_version=version)


def test_an_abort_that_is_refused_just_before_the_markers_are_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When the producer asks for the reason, the markers are complete, and the coordinator shows the refused identity."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        await _committed_late(world, producer, b"a")
        refusals = _complete_the_markers_behind_a_refusal(monkeypatch)
        await producer.begin_transaction()
        await producer.send(TOPIC, b"dropped", partition=0)
        await asyncio.sleep(0.1)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(TOPIC, b"b", partition=0)
        assert refusals == [ErrorCode.PRODUCER_FENCED]
        assert _seen(world) == [b"a", b"b"]

    simulate(play, 1, transaction_version=2)


@pytest.mark.parametrize(
    "code", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"]
)
def test_an_end_that_is_refused_by_a_coordinator_that_then_moves(code: str) -> None:
    """The new coordinator cannot give the reason: that proves no other producer, and the end is repeated."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        await _committed_late(world, producer, b"a")
        moved = world.kafka.faults.error(code, api="DescribeTransactions")
        await producer.begin_transaction()
        await producer.send(TOPIC, b"dropped", partition=0)
        await asyncio.sleep(0.1)
        await producer.abort_transaction()
        assert moved.hits == 1
        async with producer.transaction():
            await producer.send(TOPIC, b"b", partition=0)
        assert _seen(world) == [b"a", b"b"]

    simulate(play, 1, transaction_version=2)


def _complete_the_markers_behind_a_refusal(monkeypatch: pytest.MonkeyPatch) -> list[ErrorCode]:
    """From now on the markers are complete as soon as an end was refused; returns the refusals."""
    end = Transactions.end
    refusals: list[ErrorCode] = []

    def refuse_then_complete(transactions: Transactions, *arguments: Any, **options: Any) -> Identity:
        try:
            return end(transactions, *arguments, **options)
        except TransactionRefusal as refused:
            refusals.append(refused.error)
            known = transactions.get(NAME)
            assert known is not None
            transactions._finish(known)
            raise

    monkeypatch.setattr(Transactions, "end", refuse_then_complete)
    return refusals


def _without_the_second_partition(world: World) -> None:
    world.kafka.delete_topic(TOPIC)
    world.kafka.create_topic(TOPIC, 1)


def _coordinator_that_loads(world: World) -> None:
    world.kafka.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api="AddPartitionsToTxn", times=None)


HINDRANCES = pytest.mark.parametrize("hinder", [_without_the_second_partition, _coordinator_that_loads])
"""On version 1 the partition cannot be added to the transaction: it does not exist, or its coordinator never gets ready."""


@HINDRANCES
def test_a_partition_that_cannot_be_added_keeps_nobody_from_a_new_epoch(
    hinder: Callable[[World], None],
) -> None:
    """`init_transactions()` does not wait for that."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        await _committed_late(world, producer, b"a")
        await producer.partitions_for(TOPIC)
        hinder(world)
        await producer.begin_transaction()
        await producer.send(TOPIC, b"nowhere", partition=1)
        with pytest.raises(CommitOutcomeUnknownError):
            await producer.commit_transaction(timeout=1)
        await producer.init_transactions(timeout=5)
        world.kafka.faults.heal()
        async with producer.transaction():
            await producer.send(TOPIC, b"b", partition=0)
        assert _seen(world)[-1:] == [b"b"]
        assert b"nowhere" not in _seen(world)

    simulate(play, 1, transaction_version=1)


@HINDRANCES
def test_a_partition_that_cannot_be_added_ends_with_its_transaction(hinder: Callable[[World], None]) -> None:
    """After the record's time the coordinator gets no further request, and the other buffered records end."""

    async def play(world: World) -> None:
        producer = await _stage(world, delivery_timeout_ms=3_000)
        await _committed_late(world, producer, b"a")
        await producer.partitions_for(TOPIC)
        hinder(world)
        await producer.begin_transaction()
        await producer.send(TOPIC, b"nowhere", partition=1)
        await asyncio.sleep(4)
        world.kafka.forget_requests()
        await asyncio.sleep(60)
        assert "AddPartitionsToTxn" not in {request.api for request in world.kafka.requests}
        with pytest.raises(TransactionAbortedError):
            await producer.commit_transaction()
        await producer.abort_transaction()

    simulate(play, 1, transaction_version=1)


@pytest.mark.parametrize("code", [49, 120])
def test_a_refusal_that_comes_with_the_abort(code: int) -> None:
    """On version 1 AddPartitionsToTxn is refused at the moment of the abort: the next transaction works."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        for step in range(400):
            fault = world.kafka.faults.error(code, api="AddPartitionsToTxn")
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(TOPIC, b"dropped", partition=0)
            await asyncio.sleep(step * 0.00002)
            await producer.abort_transaction()
            fault.heal()
        async with producer.transaction():
            await producer.send(TOPIC, b"b", partition=0)
        assert _seen(world) == [b"b"]

    simulate(play, 1, transaction_version=1)

"""Kafka 4.0.0 raises the epoch twice where it aborts a transaction of level 2 by itself: that is no takeover (KAFKA-19367)."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from aioproducer import (
    DeliveryError,
    Outcome,
    Producer,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionHandle,
)
from tests.simulation.world import World, simulate

TOPIC: Final = "t"
NAME: Final = "books"
LIMIT: Final = 10.0
LAST_PRODUCE_OF_4_0: Final = 12


async def _producer(world: World) -> Producer[Any, Any]:
    producer = world.producer(transactional_id=NAME, transaction_timeout_ms=1000 * int(LIMIT), linger_ms=0)
    await producer.start()
    await producer.init_transactions()
    return producer


async def _stage(world: World, produce: int = LAST_PRODUCE_OF_4_0) -> Producer[Any, Any]:
    """A producer with an open transaction, at brokers that know Produce up to this version."""
    world.forgotten.add(TOPIC)
    world.kafka.create_topic(TOPIC, 2)
    world.kafka.limit_version("Produce", 3, produce)
    world.kafka._cluster.transactions.raises_twice = produce == LAST_PRODUCE_OF_4_0
    producer = await _producer(world)
    await producer.begin_transaction()
    await (await producer.send(TOPIC, b"dropped", partition=0))
    return producer


def _values(world: World) -> list[bytes | None]:
    return [record.value for record in world.kafka.records(TOPIC)]


async def _commit_out_of_time(producer: Producer[Any, Any]) -> None:
    with pytest.raises(TransactionAbortedError, match="exceeded its time limit") as caught:
        await producer.commit_transaction()
    assert caught.value.retriable
    await producer.abort_transaction()


async def _send_out_of_time(producer: Producer[Any, Any]) -> None:
    delivery = await producer.send(TOPIC, b"late", partition=1)
    with pytest.raises(DeliveryError) as caught:
        await delivery
    assert "exceeded its time limit" in str(caught.value.cause)
    await producer.abort_transaction()


async def _abort_out_of_time(producer: Producer[Any, Any]) -> None:
    await producer.abort_transaction()


async def _initialize_out_of_time(producer: Producer[Any, Any]) -> None:
    with pytest.raises(TransactionAbortedError):
        await producer.commit_transaction()
    await producer.init_transactions()


@pytest.mark.parametrize(
    "call", [_commit_out_of_time, _send_out_of_time, _abort_out_of_time, _initialize_out_of_time]
)
@pytest.mark.parametrize("marker_delay", [0.0, 0.5])
def test_a_transaction_that_exceeds_its_time_limit(call: Any, marker_delay: float) -> None:
    """It is aborted, its owner learns the reason, and the next transaction works."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        await asyncio.sleep(LIMIT - marker_delay / 2)
        world.kafka._cluster.transactions.marker_delay = marker_delay
        await asyncio.sleep(marker_delay)
        if not marker_delay:
            await asyncio.sleep(1)
        await call(producer)
        async with producer.transaction():
            await producer.send(TOPIC, b"next", partition=0)
        await asyncio.sleep(1)
        assert _values(world) == [b"next"]

    simulate(play, 1, transaction_version=2)


def test_a_lost_answer_to_the_next_epoch() -> None:
    """The repeated request gets the same epoch."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        await asyncio.sleep(LIMIT + 1)
        # The first one is refused: the epoch of the transaction is outdated.
        world.kafka.faults.cut(api="EndTxn", skip=1, times=2)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(TOPIC, b"next", partition=0)
        assert _values(world) == [b"next"]

    simulate(play, 1, transaction_version=2)


@pytest.mark.parametrize("call", ["commit", "abort"])
def test_a_handle_whose_time_is_over(call: str) -> None:
    """Its abort succeeds. Its commit reports the abort."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        async with asyncio.timeout(60):
            handle = await _detached(producer)
            await asyncio.sleep(LIMIT + 1)
        servers = world.kafka.bootstrap_servers
        if call == "abort":
            await handle.abort(servers)
        else:
            with pytest.raises(TransactionAbortedError) as caught:
                await handle.commit(servers)
            # An earlier commit may have been executed: a successor of level 1 leaves the same state.
            assert caught.value.outcome is Outcome.UNKNOWN
        assert _values(world) == []

    async def _detached(producer: Producer[Any, Any]) -> TransactionHandle:
        await producer.abort_transaction()
        async with producer.transaction() as tx:
            await (await producer.send(TOPIC, b"detached", partition=0))
            return await tx.detach()

    simulate(play, 1, transaction_version=2)


@pytest.mark.parametrize("has_open", [True, False])
def test_a_takeover_stays_a_takeover(has_open: bool) -> None:
    """A successor has the id, with a transaction that is open or none."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        successor = await _producer(world)
        if has_open:
            await successor.begin_transaction()
            await (await successor.send(TOPIC, b"successor", partition=0))
        with pytest.raises(ProducerFencedError):
            await producer.commit_transaction()
        if has_open:
            await successor.commit_transaction()
        assert _values(world) == [b"successor"] * has_open

    simulate(play, 1, transaction_version=2)


async def _abort_one_of_level_1(world: World) -> None:
    """A successor that does not know level 2 aborts a transaction, which leaves the epoch as it is."""
    world.kafka.set_transaction_version(1)
    successor = await _producer(world)
    await successor.begin_transaction()
    await (await successor.send(TOPIC, b"successor", partition=0))
    await successor.abort_transaction()
    world.kafka.set_transaction_version(2)


def test_a_successor_of_level_1_at_a_later_kafka() -> None:
    """The state is that of an abort by Kafka 4.0.0, but these brokers know more."""

    async def play(world: World) -> None:
        producer = await _stage(world, produce=LAST_PRODUCE_OF_4_0 + 1)
        before = producer._engine.sequences.identity  # type: ignore[union-attr]
        await _abort_one_of_level_1(world)
        view = world.kafka.transaction(NAME)
        assert view is not None
        assert before is not None
        assert (view.producer_epoch, view.state) == (before[1] + 2, "CompleteAbort")
        with pytest.raises(ProducerFencedError):
            await producer.commit_transaction()

    simulate(play, 1, transaction_version=2)

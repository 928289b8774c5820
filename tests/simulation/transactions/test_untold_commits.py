"""Commits that succeed while no caller learns of it: no later error says that nothing was committed."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from aioproducer import (
    CommitOutcomeUnknownError,
    KafkaError,
    Outcome,
    Producer,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionError,
    TransactionHandle,
)
from aioproducer._net.connecting.idle_connections import IdleConnections
from aioproducer._net.transactions.foreign_transactions import end_foreign
from aioproducer._wire.apis import END_TXN
from tests.simulation.world import World, simulate

TOPIC: Final = "t"
NAME: Final = "books"
LOADING: Final = "COORDINATOR_LOAD_IN_PROGRESS"
A_WEEK: Final = 7 * 86_400.0


async def _producer(world: World) -> Producer[Any, Any]:
    # A week of more frequent refreshes takes seconds of processor time.
    producer = world.producer(transactional_id=NAME, linger_ms=0, metadata_max_age_ms=20_000_000)
    await producer.start()
    await producer.init_transactions()
    return producer


async def _stage(world: World) -> Producer[Any, Any]:
    """A producer with a record in its open transaction."""
    world.forgotten.add(TOPIC)
    world.kafka.create_topic(TOPIC, 1)
    producer = await _producer(world)
    await producer.begin_transaction()
    await (await producer.send(TOPIC, b"first", partition=0))
    return producer


async def _left_commit(producer: Producer[Any, Any]) -> None:
    with pytest.raises(CommitOutcomeUnknownError):
        await producer.commit_transaction(timeout=1)


def _is_committed(world: World) -> bool:
    return [record.value for record in world.kafka.records(TOPIC)] == [b"first"]


@pytest.mark.parametrize("version", [1, 2])
def test_a_takeover_after_a_commit_that_its_caller_left(version: int) -> None:
    """The answer comes after the time-out, then another producer takes over: `init_transactions()` cannot exclude the commit."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        world.kafka.faults.delay(3, api="EndTxn")
        await _left_commit(producer)
        await asyncio.sleep(4)
        await _producer(world)
        with pytest.raises(ProducerFencedError) as caught:
            await producer.init_transactions()
        assert (caught.value.outcome, _is_committed(world)) == (Outcome.UNKNOWN, True)

    simulate(play, 1, transaction_version=version)


@pytest.mark.parametrize("call", ["commit_transaction", "init_transactions"])
def test_a_takeover_before_the_epoch_behind_a_lost_answer(call: str) -> None:
    """On version 1 the repeated commit succeeds, and the new epoch after it is refused when its caller has left."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        world.kafka.faults.cut(api="EndTxn")
        looked = world.kafka.faults.delay(before=True, api="DescribeTransactions")
        await _left_commit(producer)
        await _producer(world)
        looked.release()
        await asyncio.sleep(1)
        with pytest.raises(ProducerFencedError) as caught:
            await getattr(producer, call)()
        assert (caught.value.outcome, _is_committed(world)) == (Outcome.UNKNOWN, True)

    simulate(play, 1, transaction_version=1)


@pytest.mark.parametrize("version", [1, 2])
def test_a_coordinator_that_lacks_the_request_afterwards(version: int) -> None:
    """The commit was executed without an answer, and the next connections report no EndTxn."""

    def without_end_txn(answer: Any) -> Any:
        return answer._replace(api_keys=[each for each in answer.api_keys if each.api_key != END_TXN])

    async def play(world: World) -> None:
        producer = await _stage(world)
        world.kafka.faults.cut(api="EndTxn")
        world.kafka.faults.alter(without_end_txn, api="ApiVersions", times=None)
        with pytest.raises(TransactionError, match="lack an API version") as caught:
            await producer.commit_transaction()
        assert (caught.value.outcome, _is_committed(world)) == (Outcome.UNKNOWN, True)

    simulate(play, 1, transaction_version=version)


# -- handles


async def _detached(world: World) -> TransactionHandle:
    world.forgotten.add(TOPIC)
    world.kafka.create_topic(TOPIC, 1)
    producer = await _producer(world)
    async with producer.transaction() as tx:
        await producer.send(TOPIC, b"first", partition=0)
        return await tx.detach()


async def _end(world: World, handle: TransactionHandle, timeout: float, *, committed: bool) -> None:
    async with world.producer() as session:
        facts = (handle.transactional_id, handle.producer_id, handle.epoch, handle.version)
        engine = session._running()
        idle = IdleConnections(session.config.connections_max_idle_ms, engine.addresses.successor_of)
        await end_foreign(engine, facts, timeout, idle, committed=committed)


async def _commit(world: World, handle: TransactionHandle, timeout: float) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        await _end(world, handle, timeout, committed=True)
    return caught.value


async def _takes_over(world: World, *, aborts: bool) -> None:
    successor = await _producer(world)
    if aborts:
        await successor.begin_transaction()
        await (await successor.send(TOPIC, b"of the successor", partition=0))
        world.kafka.faults.heal()
        await successor.abort_transaction()
    world.kafka.faults.heal()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("aborts", [False, True])
@pytest.mark.parametrize("calls", [1, 2])
def test_a_handle_whose_commit_has_no_answer_before_a_takeover(
    version: int, calls: int, *, aborts: bool
) -> None:
    """The repeated commit is refused, in the same call or in the next: the first one was executed."""

    async def play(world: World) -> None:
        handle = await _detached(world)
        world.kafka.faults.cut(api="EndTxn")
        world.kafka.faults.error(LOADING, api="EndTxn", skip=1, times=None)
        committing = asyncio.create_task(_commit(world, handle, 60 if calls == 1 else 1))
        await asyncio.sleep(2)
        await _takes_over(world, aborts=aborts)
        error = await committing
        if calls == 2:
            error = await _commit(world, handle, 60)
        assert (error.outcome, _is_committed(world)) == (Outcome.UNKNOWN, True)
        assert isinstance(error, TransactionAbortedError) == (version == 1 and calls == 2 and aborts)

    simulate(play, 1, transaction_version=version)


@pytest.mark.parametrize("version", [1, 2])
def test_a_handle_whose_commit_has_no_answer_before_its_id_is_forgotten(version: int) -> None:
    """After an unused week the coordinator does not know the producer id, and so not its transaction either."""

    async def play(world: World) -> None:
        handle = await _detached(world)
        world.kafka.faults.cut(api="EndTxn")
        world.kafka.faults.error(LOADING, api="EndTxn", skip=1, times=None)
        assert (await _commit(world, handle, 1)).outcome is Outcome.UNKNOWN
        world.kafka.faults.heal()
        await asyncio.sleep(A_WEEK + 1)
        assert ((await _commit(world, handle, 60)).outcome, _is_committed(world)) == (Outcome.UNKNOWN, True)

    simulate(play, 1, transaction_version=version)


@pytest.mark.parametrize("version", [1, 2])
def test_a_repeated_abort_of_a_handle_behind_a_commit_of_a_successor(version: int) -> None:
    """On version 1 the successor commits under the epoch after that of the handle: that is no commit of its transaction."""

    async def play(world: World) -> None:
        handle = await _detached(world)
        await _end(world, handle, 60, committed=False)
        successor = await _producer(world)
        async with successor.transaction():
            await successor.send(TOPIC, b"of the successor", partition=0)
        with pytest.raises(ProducerFencedError) as caught:
            await _end(world, handle, 60, committed=False)
        assert caught.value.outcome is Outcome.UNKNOWN
        assert not _is_committed(world)

    simulate(play, 1, transaction_version=version)

"""The answer to a request that ends a transaction on version 1 is lost, and a successor takes the transactional id over."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from aioproducer import (
    CommitOutcomeUnknownError,
    Producer,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionTimeoutError,
)
from tests.simulation.world import World, simulate

TOPIC: Final = "t"
NAME: Final = "books"
LIMIT: Final = 10.0
PAST_LIMIT: Final = LIMIT + 12
UNANSWERED: Final = (CommitOutcomeUnknownError, TransactionTimeoutError)
CANNOT_KNOW: Final = "or the transaction exceeded its time limit of 10 s"


async def _producer(world: World) -> Producer[Any, Any]:
    producer = world.producer(transactional_id=NAME, transaction_timeout_ms=1000 * int(LIMIT), linger_ms=0)
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


async def _works(world: World, producer: Producer[Any, Any]) -> None:
    async with producer.transaction():
        await producer.send(TOPIC, b"after", partition=0)
    assert [record.value for record in world.kafka.records(TOPIC)][-1] == b"after"


async def _first_transaction(successor: Producer[Any, Any], end: str) -> None:
    await successor.begin_transaction()
    await (await successor.send(TOPIC, b"of the successor", partition=0))
    if end == "commit":
        await successor.commit_transaction()
    elif end == "abort":
        await successor.abort_transaction()


async def _finish(world: World, successor: Producer[Any, Any], end: str) -> None:
    """The successor is not disturbed: what it left open is committed."""
    if end == "open":
        await successor.commit_transaction()
    await _works(world, successor)


@pytest.mark.parametrize("executed", [True, False])
@pytest.mark.parametrize("first", ["open", "commit", "abort"])
@pytest.mark.parametrize("repeated", ["init_transactions", "same"])
@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_a_successor_is_left_alone(end: str, repeated: str, first: str, *, executed: bool) -> None:
    """Its first transaction leaves the state of an own one that ended at its limit: the first producer is fenced."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        lost = world.kafka.faults.cut(api="EndTxn", before=not executed, times=1)
        loading = "COORDINATOR_LOAD_IN_PROGRESS"
        refused = world.kafka.faults.error(loading, api="EndTxn", skip=1, times=None)
        silent = world.kafka.faults.error(loading, api="DescribeTransactions", times=None)
        with pytest.raises(UNANSWERED):
            await getattr(producer, end)(timeout=1)
        assert lost.hits == 1
        call = getattr(producer, end if repeated == "same" else repeated)
        calling = asyncio.create_task(call(timeout=60))
        await asyncio.sleep(1)
        successor = await _producer(world)
        if repeated != "same":
            refused.heal()
            await _first_transaction(successor, first)
            silent.heal()
        with pytest.raises(ProducerFencedError):
            refused.heal()
            silent.heal()
            await calling
        if repeated == "same":
            await _first_transaction(successor, first)
        await _finish(world, successor, first)

    simulate(play, 1, transaction_version=1)


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_what_nobody_can_know_is_said_so(end: str) -> None:
    """The transaction ends at its limit behind an end without an answer: a successor would leave the same state."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        lost = world.kafka.faults.cut(api="EndTxn", before=True, times=1)
        refused = world.kafka.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api="EndTxn", skip=1, times=None)
        with pytest.raises(UNANSWERED):
            await getattr(producer, end)(timeout=1)
        assert lost.hits == 1
        await asyncio.sleep(PAST_LIMIT)
        refused.heal()
        with pytest.raises(ProducerFencedError, match=CANNOT_KNOW):
            await producer.init_transactions(timeout=60)
        await producer.close()
        await _works(world, await _producer(world))

    simulate(play, 1, transaction_version=1)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_an_end_behind_the_limit_looks_before_it_is_sent(end: str, times: int) -> None:
    """Answers to the end that are lost then are no reason for a doubt: the transaction was over before."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        await asyncio.sleep(PAST_LIMIT)
        lost = world.kafka.faults.cut(api="EndTxn", times=times)
        if end == "abort_transaction":
            await producer.abort_transaction()
        else:
            with pytest.raises(TransactionAbortedError, match="only be aborted"):
                await producer.commit_transaction()
            await producer.abort_transaction()
        lost.heal()
        await _works(world, producer)

    simulate(play, 1, transaction_version=1)


@pytest.mark.parametrize(
    "code", ["NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"]
)
@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_an_end_behind_the_limit_waits_for_the_coordinator_that_knows_its_state(end: str, code: str) -> None:
    """The coordinator has moved, or is loading: an end that it refused could not be told from one that it executed."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        await asyncio.sleep(PAST_LIMIT)
        silent = world.kafka.faults.error(code, api="DescribeTransactions", times=2)
        refused = world.kafka.faults.error(code, api="EndTxn", times=2)
        if end == "commit_transaction":
            with pytest.raises(TransactionAbortedError, match="only be aborted"):
                await producer.commit_transaction()
        await producer.abort_transaction()
        assert silent.hits == 2
        refused.heal()
        await _works(world, producer)

    simulate(play, 1, transaction_version=1)

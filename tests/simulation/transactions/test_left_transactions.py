"""Transactions that a caller left half done, and requests that come late: the producer goes on, and no error names a takeover."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from aioproducer import (
    AuthorizationError,
    Producer,
    StateError,
    TransactionAbortedError,
    TransactionTimeoutError,
)
from aioproducer._state.delivery.losses import Losses
from aioproducer.testing.broker.cluster.transactions import Identity, TransactionRefusal
from tests.simulation.world import World, simulate

TOPIC, SOURCE, GROUP = "t", "source", "readers"
NAME: Final = "books"
LIMIT: Final = 10.0


async def _stage(world: World, **settings: Any) -> Producer[Any, Any]:
    world.forgotten.update((TOPIC, SOURCE))
    world.kafka.create_topic(TOPIC, 1)
    world.kafka.create_topic(SOURCE, 1)
    producer = world.producer(
        transactional_id=NAME, transaction_timeout_ms=1000 * int(LIMIT), linger_ms=0, **settings
    )
    await producer.start()
    await producer.init_transactions()
    return producer


async def _works(world: World, producer: Producer[Any, Any]) -> None:
    async with producer.transaction():
        await producer.send(TOPIC, b"after", partition=0)
    assert [record.value for record in world.kafka.records(TOPIC)][-1] == b"after"


def test_an_abort_by_another_task_in_each_turn_of_a_detach() -> None:
    """No handle is given out where the abort comes first: on version 1 it would end the next transaction, which has the same epoch."""
    results = [_detached_and_aborted(turn) for turn in range(1, 40)]
    assert set(results) == {(False, True), (True, False)}


def _detached_and_aborted(turn: int) -> tuple[bool, bool]:
    done: list[bool] = []

    async def play(world: World) -> None:
        producer = await _stage(world)
        await producer.begin_transaction()
        await producer.send(TOPIC, b"first", partition=0)
        now = asyncio.Event()
        world.loop.in_turn[world.loop.turns + turn] = now.set

        async def aborting() -> None:
            await now.wait()
            await producer.abort_transaction()

        transactions = producer._transactions()
        calls = (transactions.detach(LIMIT), aborting())
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, StateError | tuple | None) for result in results)
        done.extend(not isinstance(result, StateError) for result in results)
        if done[0]:
            await producer.init_transactions()
        await _works(world, producer)

    simulate(play, 1, transaction_version=1)
    detached, aborted = done
    return detached, aborted


@pytest.mark.parametrize("version", [1, 2])
def test_a_block_that_ends_after_a_detach_that_timed_out(version: int) -> None:
    """Its transaction is aborted, and the next block begins."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        world.kafka.faults.delay(5, api="Produce")
        with pytest.raises(TransactionAbortedError, match="no handle"):
            async with producer.transaction() as tx:
                await producer.send(TOPIC, b"first", partition=0)
                with pytest.raises(TransactionTimeoutError):
                    await tx.detach(timeout=1)
        await _works(world, producer)
        assert len(world.kafka.records(TOPIC)) == 1

    simulate(play, 1, transaction_version=version)


def test_a_block_that_ends_while_another_task_waits_for_the_handle() -> None:
    """The handle is given out: the block only says that it has ended too early."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        world.kafka.faults.delay(1, api="Produce")
        with pytest.raises(StateError, match="DETACHING"):
            async with producer.transaction() as tx:
                await producer.send(TOPIC, b"first", partition=0)
                detaching = asyncio.create_task(tx.detach())
                await asyncio.sleep(0.1)
        assert not (await detaching).is_empty

    simulate(play, 1, transaction_version=2)


def test_a_detached_transaction_keeps_no_producer_from_another_id() -> None:
    """Its handle ends it: neither a third id nor close() waits for the id that does not answer."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        async with producer.transaction() as tx:
            await producer.send(TOPIC, b"first", partition=0)
            await tx.detach()
        silent = world.kafka.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api="InitProducerId", times=None)
        with pytest.raises(TransactionTimeoutError):
            await producer.init_transactions("second", timeout=1)
        with pytest.raises(TransactionTimeoutError):
            await producer.init_transactions("third", timeout=1)
        began = world.now
        await producer.close()
        assert world.now - began < 1
        silent.heal()

    simulate(play, 1, transaction_version=2)


@pytest.mark.parametrize("version", [1, 2])
def test_a_right_that_was_withdrawn_is_no_takeover(version: int) -> None:
    """The transaction ends at its limit, and its next epoch is refused because of a missing permission."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        await producer.begin_transaction()
        await (await producer.send(TOPIC, b"first", partition=0))
        await asyncio.sleep(LIMIT + 15)
        for api in ("EndTxn", "InitProducerId"):
            world.kafka.faults.error("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", api=api, times=None)
        await (await producer.send(TOPIC, b"second", partition=0)).wait()
        await asyncio.sleep(1)
        with pytest.raises(AuthorizationError):
            await producer.abort_transaction()

    simulate(play, 1, transaction_version=version)


@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"])
def test_a_request_that_was_repeated_may_come_late(api: str, end: str) -> None:
    """On version 1 it would open the next transaction, which nothing ends before its limit: it is refused by its epoch."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        known = world.kafka._cluster.transactions.get(NAME)
        assert known is not None
        before = Identity(known.producer_id, known.epoch)
        world.kafka.faults.cut(before=True, api=api)
        await producer.begin_transaction()
        await (await producer.send(TOPIC, b"first", partition=0))
        await producer.send_offsets_to_transaction({(SOURCE, 0): 1}, GROUP)
        await getattr(producer, f"{end}_transaction")()
        with pytest.raises(TransactionRefusal):
            world.kafka._cluster.transactions.add_partitions(NAME, before, ())
        await _works(world, producer)

    simulate(play, 1, transaction_version=1)


@pytest.mark.parametrize("version", [1, 2])
def test_offsets_of_a_request_that_was_repeated_may_come_late(version: int) -> None:
    """They would replace those that were sent after them: the transaction is aborted, and the next one works."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        await producer.begin_transaction()
        world.kafka.faults.cut(before=True, api="TxnOffsetCommit")
        await producer.send_offsets_to_transaction({(SOURCE, 0): 1}, GROUP)
        with pytest.raises(TransactionAbortedError, match="may replace later offsets") as caught:
            await producer.send_offsets_to_transaction({(SOURCE, 0): 2}, GROUP)
        assert caught.value.retriable
        await producer.abort_transaction()
        async with producer.transaction() as tx:
            for offset in (1, 2):
                tx.send_offsets({(SOURCE, 0): offset}, GROUP)
            await producer.send(TOPIC, b"second", partition=0)
        assert world.kafka.committed_offset(GROUP, SOURCE) == 2
        await _works(world, producer)

    simulate(play, 1, transaction_version=version)


def test_a_transaction_that_finds_no_memory_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one begins."""

    def without_memory(_: Losses) -> None:
        raise MemoryError

    async def play(world: World) -> None:
        producer = await _stage(world)
        with monkeypatch.context() as patched:
            patched.setattr(Losses, "gaps_seen", without_memory)
            with pytest.raises(MemoryError):
                await producer.begin_transaction()
        await _works(world, producer)

    simulate(play, 1, transaction_version=2)

"""A coordinator that does not do what it is asked is a problem in `health()`, while a call of a transaction waits for it."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from aioproducer import Producer, TopicPartition, TransactionTimeoutError
from tests.simulation.world import World, simulate

NAME: Final = "books"
OF_ID: Final = f"the coordinator of transactional id {NAME!r} has not done a request for "
OF_GROUP: Final = "the coordinator of group 'readers' has not done a request for "


def _told(producer: Producer[Any, Any]) -> list[str]:
    return [problem for problem in producer.health().problems if "coordinator" in problem]


@pytest.mark.parametrize("api", ["FindCoordinator", "InitProducerId"])
@pytest.mark.parametrize("how", ["COORDINATOR_NOT_AVAILABLE", "silence"])
def test_no_producer_id(api: str, how: str) -> None:
    """`init_transactions()` goes on when its caller has left: `health()` has the reason until it ends."""

    async def play(world: World) -> None:
        fault = (
            world.kafka.faults.silence(api=api, times=None)
            if how == "silence"
            else world.kafka.faults.error(how, api=api, times=None)
        )
        async with world.producer(transactional_id=NAME, request_timeout_ms=500) as producer:
            assert _told(producer) == []
            with pytest.raises(TransactionTimeoutError):
                await producer.init_transactions(timeout=8)
            (problem,) = _told(producer)
            assert problem.startswith(OF_ID)
            assert ("no answer" if how == "silence" else how) in problem
            assert producer.health().ready, "records do not wait for it yet"
            fault.heal()
            await producer.init_transactions(timeout=30)
            assert _told(producer) == []

    simulate(play, 1)


def test_short_troubles_are_none() -> None:
    """A new transaction finds the end of the last one not written for a moment; that is no problem of anything."""

    async def play(world: World) -> None:
        world.forgotten.add("new")
        async with world.producer(transactional_id=NAME) as producer:
            await producer.init_transactions()
            world.kafka.faults.error("CONCURRENT_TRANSACTIONS", api="EndTxn", times=5)
            async with producer.transaction():
                await producer.send("new", b"v")
                ending = asyncio.ensure_future(_looks(producer))
            assert not ending.done(), "it never found a problem"
            ending.cancel()
            assert _told(producer) == []

    async def _looks(producer: Producer[Any, Any]) -> None:
        while True:
            assert _told(producer) == []
            await asyncio.sleep(0.001)

    simulate(play, 1)


def test_a_group_and_a_commit() -> None:
    """The coordinator of a group is named as that; one that was replaced by an abort is no problem any more."""

    async def play(world: World) -> None:
        async with world.producer(transactional_id=NAME) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            fault = world.kafka.faults.error(
                "COORDINATOR_LOAD_IN_PROGRESS", api="TxnOffsetCommit", times=None
            )
            with pytest.raises(TransactionTimeoutError):
                await producer.send_offsets_to_transaction(
                    {TopicPartition("in", 0): 3}, "readers", timeout=20
                )
            (problem,) = _told(producer)
            assert problem.startswith(OF_GROUP)
            assert "COORDINATOR_LOAD_IN_PROGRESS" in problem
            await producer.abort_transaction()
            assert _told(producer) == []
            fault.heal()

    simulate(play, 1)

"""Calls for transactions of other producers, whose producer or session is closed meanwhile by another task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from aioproducer import CommitOutcomeUnknownError, Coordinators, Outcome, StateError
from tests.simulation.world import World, simulate

TOPIC: Final = "t"
NAME: Final = "books"
LIMIT: Final = 30.0
CALLS: Final[dict[str, Callable[[Any], Awaitable[object]]]] = {
    "FindCoordinator": lambda asked: asked.committed_offsets("readers", [(TOPIC, 0)], timeout=LIMIT),
    "InitProducerId": lambda asked: asked.fence(["another"], timeout=LIMIT),
    "ListTransactions": lambda asked: asked.list_transactions(timeout=LIMIT),
}


@pytest.mark.parametrize("api", CALLS)
@pytest.mark.parametrize("of_session", [False, True], ids=["producer", "session"])
def test_a_call_ends_with_its_producer(api: str, *, of_session: bool) -> None:
    """It opens no connection behind the close, which nothing would close, and does not go on to its time limit."""

    async def play(world: World) -> None:
        world.forgotten.add(TOPIC)
        world.kafka.create_topic(TOPIC, 1)
        world.kafka.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api=api, times=None)
        asked: Any = Coordinators(world.kafka.bootstrap_servers) if of_session else world.producer()
        await asked.__aenter__()
        call = asyncio.ensure_future(CALLS[api](asked))
        await asyncio.sleep(1)
        await asked.__aexit__(None, None, None)
        closed_at = world.now
        with pytest.raises(StateError, match="closed while this call went on"):
            await call
        assert world.now - closed_at < LIMIT / 10

    # The simulation finds no open connection at its end.
    simulate(play, 1)


def test_a_call_ends_with_its_producer_while_its_brokers_are_down() -> None:
    """It does not go on to dial them."""

    async def play(world: World) -> None:
        world.kafka.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api="InitProducerId", times=None)
        session = Coordinators(world.kafka.bootstrap_servers)
        await session.__aenter__()
        call = asyncio.ensure_future(session.fence(["another"], timeout=LIMIT))
        await asyncio.sleep(1)
        for broker in world.kafka.brokers:
            await world.kafka.faults.stop_broker(broker.id)
        await session.__aexit__(None, None, None)
        closed_at = world.now
        with pytest.raises(StateError, match="closed while this call went on"):
            await call
        assert world.now - closed_at < LIMIT / 10

    simulate(play, 1)


@pytest.mark.parametrize("version", [1, 2])
def test_a_commit_whose_session_is_closed(version: int) -> None:
    """It was executed, and its answer was lost: the end of the session does not say that nothing was committed."""

    async def play(world: World) -> None:
        world.forgotten.add(TOPIC)
        world.kafka.create_topic(TOPIC, 1)
        producer = world.producer(transactional_id=NAME, linger_ms=0)
        await producer.start()
        async with producer.transaction() as tx:
            await producer.send(TOPIC, b"first", partition=0)
            handle = await tx.detach()
        world.kafka.faults.cut(api="EndTxn")
        world.kafka.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api="EndTxn", skip=1, times=None)
        async with Coordinators(world.kafka.bootstrap_servers) as coordinators:
            committing = asyncio.create_task(coordinators.commit(handle, timeout=LIMIT))
            await asyncio.sleep(1)
        with pytest.raises(CommitOutcomeUnknownError) as caught:
            await committing
        assert caught.value.outcome is Outcome.UNKNOWN
        assert [record.value for record in world.kafka.records(TOPIC)] == [b"first"]

    simulate(play, 1, transaction_version=version)

"""A coordinator of a group that refuses offsets because its question was replaced, or because it loads its groups."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer import TopicPartition
from tests.simulation.world import World, simulate

OFFSETS = {TopicPartition("in", 0): 3}


@pytest.mark.parametrize(("refusals", "least", "most"), [(3, 0.01, 0.03), (4, 0.09, 0.15), (6, 0.5, 1.0)])
def test_pauses_behind_refusals(refusals: int, least: float, most: float) -> None:
    """The first three repetitions come within milliseconds; a coordinator that loads its groups is asked after the backoff."""

    async def play(world: World) -> None:
        world.kafka.create_topic("in", 1)
        async with world.producer(transactional_id="books", retry_backoff_ms=100) as producer:
            await producer.init_transactions()
            loop = asyncio.get_running_loop()
            await producer.begin_transaction()
            # The connection to the coordinator of the group is open from now on.
            await producer.send_offsets_to_transaction(OFFSETS, "readers")
            world.kafka.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api="TxnOffsetCommit", times=refusals)
            began = loop.time()
            await producer.send_offsets_to_transaction(OFFSETS, "readers")
            assert least < loop.time() - began < most
            await producer.commit_transaction()

    simulate(play, 1)

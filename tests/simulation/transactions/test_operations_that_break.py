"""An operation in whose task the process has no memory, or is interrupted: the producer ends with it, at once."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest

from aioproducer import KafkaError
from aioproducer._net.transactions.questions import Questions
from tests.simulation.world import World, simulate


@pytest.mark.parametrize("version", [1, 2])
def test_calls_in_each_turn_behind_an_operation_that_broke(version: int) -> None:
    """None of them starts a task in a group that has ended: it would keep the loop busy without end."""

    async def play(world: World) -> None:
        producer = world.producer(transactional_id="books", linger_ms=0)
        await producer.start()
        with mock.patch.object(Questions, "ask", side_effect=MemoryError), pytest.raises(KafkaError):
            await producer.init_transactions()
        calls: list[Any] = []
        for _ in range(20):
            calls.append(asyncio.ensure_future(producer.init_transactions()))
            await asyncio.sleep(0)
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, KafkaError) for result in results)
        assert producer.health().state == "failed"

    # A task that spins is found sooner.
    with mock.patch("tests.simulation.loop._MOST_TURNS", 20_000):
        simulate(play, 1, transaction_version=version)

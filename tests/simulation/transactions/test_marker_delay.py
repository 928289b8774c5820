"""Leaders hold the first records of a transaction for 20 ms while the one before has no markers: they are sent later."""

from __future__ import annotations

import pytest

from aioproducer.testing import Fault
from tests.effort import SCENARIO_VARIANT, seeds
from tests.simulation.fault_schedule import TOPIC
from tests.simulation.world import World, simulate

MARKERS, KEPT = 0.002, 0.020
LEARNING, MEASURED = 120, 100


def _written(fault: Fault) -> None:
    """A request from before the markers is held to the end; a later one is not held."""
    if not fault.hits:
        fault.heal()


@pytest.mark.parametrize("seed", seeds(SCENARIO_VARIANT))
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("renewed", [False, True])
def test_records_are_sent_when_the_leader_takes_them(seed: int, version: int, *, renewed: bool) -> None:
    """After some transactions hardly any record is held by the leader, and none waits for long; version 1 never waits.

    The same holds where aborts are refused, and the next epoch ends the transaction.
    """
    kept: list[bool] = []
    took: list[float] = []

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, 1)
        world.forgotten.add(TOPIC)
        producer = world.producer(transactional_id="orders", linger_ms=0)
        await producer.start()
        await producer.init_transactions()
        for _ in range(LEARNING + MEASURED):
            began = world.now
            fault = world.kafka.faults.delay(KEPT, before=True, api="Produce")
            if version == 1:
                fault.heal()
            world.loop.call_at(began + MARKERS, _written, fault)
            await producer.begin_transaction()
            await (await producer.send(TOPIC, b"x"))
            if renewed:
                world.kafka.faults.error("UNKNOWN_PRODUCER_ID", api="EndTxn", times=1)
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
            kept.append(fault.hits > 0)
            took.append(world.now - began)
        assert len(world.kafka.records(TOPIC)) == (0 if renewed else LEARNING + MEASURED)

    simulate(play, seed, transaction_version=version)
    assert sum(kept[LEARNING:]) <= MEASURED * 0.05
    assert sum(took[LEARNING:]) / MEASURED < sum(sorted(took)[: MEASURED // 2]) / (MEASURED // 2) + 0.003

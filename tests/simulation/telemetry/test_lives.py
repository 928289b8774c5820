"""Whole lives under faults with telemetry on: the judge finds nothing, and no push counts a record that does not exist."""

from __future__ import annotations

import pytest

from tests.effort import seeds
from tests.simulation.access import drawn_access
from tests.simulation.chaos import RECORDS, live
from tests.simulation.world import World, simulate

SENT = "org.apache.kafka.producer.record.send.total"


@pytest.mark.parametrize("seed", seeds(5))
def test_a_chaotic_life_that_pushes_its_metrics(seed: int) -> None:
    """Pushes each second, during faults of everything: the records have their outcomes as without them."""

    async def play(world: World) -> None:
        world.kafka.subscribe_metrics(["*"], 1_000)
        await live(world)

    world = simulate(play, seed, access=drawn_access(seed), telemetry=True)
    assert len(world.ledger.entries) >= RECORDS
    acked = sum(producer.stats().records_acked for producer in world.producers)
    assert sum(sum(push.values(SENT)) for push in world.kafka.pushes) <= acked

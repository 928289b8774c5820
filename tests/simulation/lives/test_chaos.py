"""Chaotic lives: whatever happens, nothing acked is lost, doubled or reordered, and no delivery is left hanging."""

from __future__ import annotations

import pytest

from tests.effort import CHAOS, seeds
from tests.simulation.chaos import RECORDS, live
from tests.simulation.fault_schedule import Storm
from tests.simulation.world import World, simulate


@pytest.mark.parametrize("seed", seeds(CHAOS))
def test_a_chaotic_life_keeps_the_promise(seed: int) -> None:
    """A thousand records, several tasks, three to eight faults: the judge finds nothing."""
    storm: list[Storm] = []

    async def play(world: World) -> None:
        storm.append(await live(world))

    try:
        world = simulate(play, seed)
    except BaseException:
        print("\n".join(storm[0].told) if storm else "it ended before its end")
        raise
    assert len(world.ledger.entries) >= RECORDS

"""Chaotic lives: under all faults no acked record is lost, doubled or reordered, and every delivery ends."""

from __future__ import annotations

import pytest

from tests.effort import CHAOS, seeds
from tests.simulation.access import drawn_access
from tests.simulation.chaos import RECORDS, live
from tests.simulation.fault_schedule import FaultSchedule
from tests.simulation.world import World, simulate


@pytest.mark.parametrize("seed", seeds(CHAOS))
def test_a_chaotic_life_keeps_the_promise(seed: int) -> None:
    """A thousand records, several tasks, three to eight faults: the judge finds no fault."""
    schedule: list[FaultSchedule] = []

    async def play(world: World) -> None:
        schedule.append(await live(world))

    try:
        world = simulate(play, seed, access=drawn_access(seed))
    except BaseException:
        print("\n".join(schedule[0].log) if schedule else "it ended before its end")
        raise
    assert len(world.ledger.entries) >= RECORDS

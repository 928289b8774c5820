"""Wide lives: under all settings and in all kinds of use, a producer keeps the promise that its settings leave."""

from __future__ import annotations

import pytest

from tests.effort import SEED_VARIABLE, WIDE, seeds
from tests.simulation.access import drawn_access
from tests.simulation.wide.life import Life, live_in
from tests.simulation.world import World, simulate

TOGETHER = 10
"""Lives in one test: they are many and short."""


def lived(seed: int) -> None:
    """One life; a broken promise is an AssertionError with the command that replays it."""
    lives: list[Life] = []

    async def play(world: World) -> None:
        lives.append(live_in(world))
        await lives[0].live()

    try:
        simulate(play, seed, access=drawn_access(seed))
        broken = lives[0].verdict()
        assert not broken, "\n".join(broken)
    except BaseException:
        print(f"{SEED_VARIABLE}={seed} replays this life")
        for life in lives:
            print("\n".join([f"{name}={value!r}" for name, value in life.settings.items()]))
            print("\n".join(life.schedule.log))
        raise


def _groups() -> list[list[int]]:
    all_of_them = seeds(WIDE)
    return [all_of_them[at : at + TOGETHER] for at in range(0, len(all_of_them), TOGETHER)]


@pytest.mark.parametrize("group", _groups(), ids=lambda group: f"from-{group[0]}")
def test_a_wide_life_keeps_the_promise(group: list[int]) -> None:
    """The judge, the reports and the clock find no fault."""
    for seed in group:
        lived(seed)

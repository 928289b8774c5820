"""Wide lives: under whatever settings, used in whatever way, a producer keeps the promise that they leave."""

from __future__ import annotations

import pytest

from tests.effort import SEED_VARIABLE, WIDE, seeds
from tests.simulation.wide.life import Life, live_in
from tests.simulation.world import World, simulate

TOGETHER = 10
"""Lives in one test: there are many, and each is short."""


def lived(seed: int) -> None:
    """One life; a broken promise is an AssertionError that says how to replay it."""
    lives: list[Life] = []

    async def play(world: World) -> None:
        lives.append(live_in(world))
        await lives[0].live()

    try:
        simulate(play, seed)
        broken = lives[0].verdict()
        assert not broken, "\n".join(broken)
    except BaseException:
        print(f"{SEED_VARIABLE}={seed} replays this life")
        for life in lives:
            print("\n".join([f"{name}={value!r}" for name, value in life.settings.items()]))
            print("\n".join(life.storm.told))
        raise


def _groups() -> list[list[int]]:
    all_of_them = seeds(WIDE)
    return [all_of_them[at : at + TOGETHER] for at in range(0, len(all_of_them), TOGETHER)]


@pytest.mark.parametrize("group", _groups(), ids=lambda group: f"from-{group[0]}")
def test_a_wide_life_keeps_the_promise(group: list[int]) -> None:
    """Neither the judge, nor the reports, nor the clock find anything."""
    for seed in group:
        lived(seed)

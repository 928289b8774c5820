"""Lives of days: the promise holds when state idles out, is forgotten, recreated or answered from the past."""

from __future__ import annotations

import pytest

from tests.effort import DAYS, SEED_VARIABLE, seeds
from tests.simulation.access import drawn_access
from tests.simulation.days import idempotent, transactional
from tests.simulation.days.scene import seldom_looks
from tests.simulation.world import World, simulate

TOGETHER = 20
"""Lives in one test: they are many and short."""


def _groups() -> list[list[int]]:
    all_of_them = seeds(DAYS)
    return [all_of_them[at : at + TOGETHER] for at in range(0, len(all_of_them), TOGETHER)]


@pytest.mark.parametrize("group", _groups(), ids=lambda group: f"from-{group[0]}")
def test_an_idempotent_life_of_days_keeps_the_promise(group: list[int]) -> None:
    """The judge finds no fault in any incarnation of the topics, and every send succeeds in the end."""
    for seed in group:
        lived: list[idempotent.Life] = []

        async def play(world: World, lived: list[idempotent.Life] = lived) -> None:
            await idempotent.live(world, lived)

        try:
            options = idempotent.options_of(seed)
            with seldom_looks(options):
                simulate(play, seed, access=drawn_access(seed), **options)
            broken = idempotent.verdict(lived[0])
            assert not broken, "\n".join(broken)
        except BaseException:
            _tell(seed, lived[0].scene.story if lived else [])
            raise


@pytest.mark.parametrize("group", _groups(), ids=lambda group: f"from-{group[0]}")
def test_a_transactional_life_of_days_keeps_the_promise(group: list[int]) -> None:
    """No call reports fencing; exactly the committed records are there; commits work in the end."""
    for seed in group:
        lived: list[transactional.Life] = []

        async def play(world: World, lived: list[transactional.Life] = lived) -> None:
            await transactional.live(world, lived)

        try:
            # The version of transactions is drawn by the seed's last bit: each version has secured lives.
            options = transactional.options_of(seed)
            with seldom_looks(options):
                simulate(play, seed, access=drawn_access(seed // 2), **options)
            broken = transactional.verdict(lived[0])
            assert not broken, "\n".join(broken)
        except BaseException:
            _tell(seed, lived[0].scene.story if lived else [])
            raise


def _tell(seed: int, story: list[str]) -> None:
    print("\n".join([f"{SEED_VARIABLE}={seed} replays this life", *story]))

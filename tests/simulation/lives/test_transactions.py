"""Transactional lives: under all faults a transaction is visible as a whole or not at all, as its owner learns."""

from __future__ import annotations

import pytest

from tests.effort import TRANSACTIONS, seeds
from tests.judge.transactions import judge_transactions
from tests.simulation.bookkeeping import Books, live
from tests.simulation.fault_schedule import FaultSchedule
from tests.simulation.world import World, simulate


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", seeds(TRANSACTIONS))
def test_a_transactional_life_keeps_the_promise(seed: int, version: int) -> None:
    """Owners that come, go, are killed or fenced, three to eight faults: the judge finds no fault."""
    lived: list[tuple[Books, FaultSchedule]] = []

    async def play(world: World) -> None:
        lived.append(await live(world))

    simulate(play, seed, transaction_version=version)
    books, schedule = lived[0]
    findings = judge_transactions(books.entries, books.seen())
    assert not findings, "\n".join([f"AIOPRODUCER_SEED={seed}", *map(str, findings), *schedule.log])
    assert books.entries

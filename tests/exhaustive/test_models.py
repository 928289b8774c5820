"""Every order of events of small models keeps the promise, and leads to an end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aioproducer._state.delivery.verdicts import Kind, verdict
from tests.effort import LONG_TEST
from tests.exhaustive.explorer import Explorer
from tests.exhaustive.model import FATES, Model

# Codes that are decided like the one that a fate stands for.
ALIKE = {
    "declined": (2, 89),
    "refused": (17, 21, 29, 32, 44, 76),
    "unordered": (47, 59),
    "too-large": (18,),
    "unconfirmed": (13, 20, 56),
    "unwritten": (13, 20, 56),
    "failed": (999,),
    "failing": (999,),
}


@pytest.mark.timeout(LONG_TEST)
def test_every_order_of_events_keeps_the_promise(
    model: Model, record_property: Callable[[str, object], None]
) -> None:
    """In each state the promise holds, and from each an end is reached; no fewer states are seen than once were."""
    counts = Explorer(model).explore()
    print(f"{model.name}: {counts}")
    record_property("explored", str(counts))
    assert counts.ends
    assert counts.states >= model.states, f"explored are only {counts}; once it was {model.states:,} states"


def decision(code: int) -> tuple[Kind, bool]:
    """The decision after this code, and whether it proves that nothing was appended."""
    decided = verdict(code, -1)
    return decided.kind, decided.proves_not_appended


@pytest.mark.parametrize("fate", FATES)
def test_one_code_stands_for_all_that_are_decided_alike(fate: str) -> None:
    """To explore the fates with one code each is to explore them with every code of their class."""
    assert {decision(code) for code in (FATES[fate].code, *ALIKE[fate])} == {decision(FATES[fate].code)}


def test_fates_differ() -> None:
    """No two fates are the same in what the broker does and what the producer makes of it."""
    assert len({(decision(fate.code), fate.appends) for fate in FATES.values()}) == len(FATES)

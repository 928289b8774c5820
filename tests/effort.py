"""How hard the tests of the proof try, by `AIOPRODUCER_EFFORT`.

`few` (the default): enough to notice what is broken, in `make check`. `all`: what `make test` does once. `proof`: fifty times
the seeds, every byte, ten times the kills, for `make proof`. `AIOPRODUCER_SEED=n` replays one seed.
"""

from __future__ import annotations

import os
from typing import Final

EFFORT: Final = os.environ.get("AIOPRODUCER_EFFORT", "few")
FEW: Final = EFFORT == "few"
PROOF: Final = EFFORT == "proof"
SEED_VARIABLE: Final = "AIOPRODUCER_SEED"
_FACTOR: Final = {"few": 0.05, "all": 1.0, "proof": 50.0}[EFFORT]

CHAOS: Final = 200
TRANSACTIONS: Final = 150
"""Of each version."""
DAYS: Final = 1_000
"""Of each kind of producer."""
WIDE: Final = 140
EVERY_TURN: Final = {"few": 29, "all": 2, "proof": 1}[EFFORT]
"""Something happens in every so-manieth turn of the loop."""
SCENARIO: Final = 12
"""With 20, the proof took 757 s of the half hour of `make test`; `make proof` plays fifty times as many."""
SCENARIO_VARIANT: Final = 4
"""Of a scenario in several variants, each is played at least so often, and all together at least `SCENARIO` times."""


def seeds(count: int) -> list[int]:
    """The seeds of a test of which `make test` tries `count`, or the one that is to be replayed."""
    chosen = os.environ.get(SEED_VARIABLE)
    return [int(chosen)] if chosen else list(range(max(1, round(count * _FACTOR))))

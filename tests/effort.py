"""The effort of the randomized tests, by `AIOPRODUCER_EFFORT`.

`few` (the default): enough to notice a defect, in `make check`. `all`: one pass of `make test`. `proof`: fifty times
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

# `make test` plays the same seeds in each run, so more of them prove nothing new from run to run. `make proof` plays fifty times
# the larger number.
CHAOS: Final = 200 if PROOF else 70
TRANSACTIONS: Final = 150 if PROOF else 75
"""Seeds of each version."""
SHARED: Final = 40 if PROOF else 20
"""Seeds of each version."""
HANDLES: Final = 40 if PROOF else 20
"""Seeds of each version."""
EXACTLY_ONCE: Final = 15
"""Seeds of each version and kind of work of the Spark sink: a life takes about half a second."""
COPYING: Final = 6
"""Seeds of each version: a life takes about half a second."""
DAYS: Final = 1_000 if PROOF else 100
"""Seeds of each kind of producer. With 1,000 they took a quarter of the time of the proof in `make test`, with 160 a twentieth;
3 of 14,000 found a defect. The proof plays 50,000."""
DIALS: Final = 30
"""One life in four had a commit of unknown outcome before attempts without an answer held up no other."""
KEPT: Final = 10
"""A life takes about a second, and one in twelve found the last defects."""
WIDE: Final = 140 if PROOF else 70
CHECKPOINTS: Final = 200 if PROOF else 100
"""The proof plays 10,000 of them."""
DEAD_LETTERS: Final = 100 if PROOF else 20
RESOLVING: Final = 40
"""About one life in three has records of unknown outcome."""
EVERY_TURN: Final = {"few": 29, "all": 2, "proof": 1}[EFFORT]
"""An interruption in every n-th turn of the loop."""
LONG_TEST: Final = 3_000
"""The limit of a long test, in seconds: `make test` runs the proof beside other tests, with the time that they leave."""
SCENARIO: Final = 12 if PROOF else 8
"""With 20, the proof took 757 s of the half hour of `make test`; `make proof` plays 600."""
SCENARIO_VARIANT: Final = 4
"""Each variant of a scenario with several runs at least so many seeds, and all together at least `SCENARIO`."""


def seeds(count: int) -> list[int]:
    """The seeds of a test of which `make test` tries `count`, or the one that is replayed."""
    chosen = os.environ.get(SEED_VARIABLE)
    return [int(chosen)] if chosen else list(range(max(1, round(count * _FACTOR))))

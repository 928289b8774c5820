"""How many seeds are tried: a few on every Python, all of them in one run of `make test`, fifty times that in `make proof`.

`AIOPRODUCER_SEEDS` is `few` (by default), `all` or `proof`; `AIOPRODUCER_SEED=n` replays one.
"""

from __future__ import annotations

import os
from typing import Final

SEED_VARIABLE: Final = "AIOPRODUCER_SEED"
_FACTOR: Final = {"few": 0.05, "all": 1, "proof": 50}[os.environ.get("AIOPRODUCER_SEEDS", "few")]

CHAOS: Final = 500
SCENARIO: Final = 20


def seeds(count: int) -> list[int]:
    """The seeds of a test of which `count` are tried in a whole run, or the one that is to be replayed."""
    chosen = os.environ.get(SEED_VARIABLE)
    return [int(chosen)] if chosen else list(range(max(1, round(count * _FACTOR))))

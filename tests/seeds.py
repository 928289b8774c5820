"""The seeds that tests draw: printed, replayed one by one with `AIOPRODUCER_SEED`, and all of a run with `AIOPRODUCER_RUN_SEED`."""

from __future__ import annotations

import os
import random

from tests.effort import SEED_VARIABLE

RUN_SEED_VARIABLE = "AIOPRODUCER_RUN_SEED"


def fresh_seed() -> int:
    """A seed for the running test, printed, so that it is shown with a failure."""
    test, _, _ = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")
    seed = seed_of(test)
    print(f"replay with {SEED_VARIABLE}={seed}")
    return seed


def seed_of(test: str) -> int:
    """The seed to replay, or one for a test or a module: the same in every run with the same run seed."""
    chosen, run = os.environ.get(SEED_VARIABLE), os.environ.get(RUN_SEED_VARIABLE)
    if chosen:
        return int(chosen)
    return random.Random(f"{run} {test}" if run else None).randrange(2**31)

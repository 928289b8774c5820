"""How long each state machine runs: 600 examples of 60 steps in `make test`."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.collector import seldom
from tests.effort import FEW, LONG_TEST, PROOF

# Hypothesis remembers what it has tried, and takes ever longer to think of something new: many short runs see more.
PARTS = 50 if PROOF else 1
SETTINGS = settings(
    max_examples=30 if FEW else 600,
    stateful_step_count=60,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def in_parts(test: Callable[[int], None]) -> Callable[[int], None]:
    """Marks a test that calls `run`. A failure is made as short as possible before it is shown: that may take minutes."""
    return pytest.mark.timeout(LONG_TEST)(pytest.mark.parametrize("part", range(PARTS))(test))


def run(machine: type[RuleBasedStateMachine], part: int) -> None:
    """Try random lives of a machine; a failure shows the shortest, and what replays it."""
    print(f"part {part} of {PARTS}")
    with seldom():
        run_state_machine_as_test(machine, settings=SETTINGS)


def broken_off() -> bool:
    """In a teardown: a step has failed, and its error says more than what would follow from it."""
    return sys.exc_info()[0] is not None

"""How long each state machine runs: 1,000 examples of 60 steps in `make test`."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine

from tests.effort import FEW, PROOF

EXAMPLES = 30 if FEW else 50_000 if PROOF else 1000
STEPS = 60
# What is found is made as short as possible before it is shown: that may take minutes.
SHRINKING = pytest.mark.timeout(600)


def case(machine: type[RuleBasedStateMachine]) -> Any:  # a class of its own, made by hypothesis
    """The test case of a machine."""
    made: Any = machine.TestCase
    made.settings = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    made.pytestmark = [SHRINKING]
    return made


def broken_off() -> bool:
    """In a teardown: a step has failed, and its error says more than what would follow from it."""
    return sys.exc_info()[0] is not None

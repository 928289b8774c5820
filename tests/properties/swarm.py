"""How a machine chooses its next rule: by one choice, where hypothesis itself takes six or seven.

Hypothesis draws any rule, asks whether it may run now and whether this life has it at all, and draws again if not; each of
the answers is a choice that is recorded, compared and mutated, and all that took more time than the machines did. Here a life
draws once which rules it has (a swarm, as there), and then each step is one of those that may run.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

# Of eight rules a life lacks so many, on average; none is the simplest.
_LACKING = st.integers(0, 7)
_OF_EIGHT = st.integers(1, 8)
_PLACES = [st.integers(0, most) for most in range(100)]


class SwarmMachine(RuleBasedStateMachine):
    """A machine whose lives have some of its rules each."""

    def __init__(self) -> None:
        super().__init__()
        self.present: list[Any] | None = None
        self._rules_strategy: Any = _next_rule(self)

    def may_run(self, rules: list[Any]) -> list[Any]:
        """Those whose preconditions hold."""
        return [rule for rule in rules if all(holds(self) for holds in rule.preconditions)]


@st.composite
def _next_rule(draw: st.DrawFn, machine: SwarmMachine) -> tuple[Any, dict[str, Any]]:
    if machine.present is None:
        lacking = draw(_LACKING)
        machine.present = [rule for rule in machine.rules if not lacking or draw(_OF_EIGHT) > lacking]
    possible = machine.may_run(machine.present) or machine.may_run(machine.rules)
    rule = possible[draw(_PLACES[len(possible) - 1])]
    return rule, {name: draw(strategy) for name, strategy in rule.arguments.items()}

"""The number of hypothesis examples: `ci` for every edit, `proof` for `make proof`; `--hypothesis-profile` chooses.

Neither has a deadline per example: a busy machine is no finding. Failures print the blob that replays them.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Verbosity, settings

PROOF_FACTOR = 20

settings.register_profile(
    "ci",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "proof",
    parent=settings.get_profile("ci"),
    max_examples=100 * PROOF_FACTOR,
    verbosity=Verbosity.normal,
)
settings.load_profile("ci")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under `proof`, tests that name their own number of examples get more of them too."""
    if config.getoption("--hypothesis-profile") != "proof":
        return
    for function in {item.function for item in items if isinstance(item, pytest.Function)}:
        own = getattr(function, "_hypothesis_internal_use_settings", None)
        if own is not None and own.max_examples < 100 * PROOF_FACTOR:
            more = settings(own, max_examples=own.max_examples * PROOF_FACTOR)
            vars(function)["_hypothesis_internal_use_settings"] = more

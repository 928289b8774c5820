"""Which models are explored: one of them, all small ones, or the large ones too, as `tests/effort.py` says."""

from __future__ import annotations

import pytest

from tests.effort import FEW, PROOF
from tests.exhaustive.models import LARGE_MODELS, MODELS

EXPLORED = "explored"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for a `model` is run with each of them."""
    if "model" in metafunc.fixturenames:
        models = MODELS[1:2] if FEW else (*MODELS, *LARGE_MODELS) if PROOF else MODELS
        metafunc.parametrize("model", models, ids=lambda model: model.name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the explored counts, model by model."""
    lines = [
        (report.nodeid.partition("[")[2].rstrip("]"), text)
        for report in terminalreporter.getreports("passed")
        for name, text in report.user_properties
        if name == EXPLORED
    ]
    if lines:
        terminalreporter.section("explored")
    for model, text in lines:
        terminalreporter.write_line(f"{model}: {text}")

"""A plugin of pytest that writes each start and failure down, also for a run that is killed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import pytest

PLACE: Final = "AIOPRODUCER_WITNESS"
STARTED: Final = "started"
FAILED: Final = "failed"


def _note(what: str, nodeid: str) -> None:
    # Line by line, so that a killed run leaves the lines before its end.
    with Path(os.environ[PLACE]).open("a") as notes:
        notes.write(f"{what} {nodeid}\n")


def pytest_runtest_logstart(nodeid: str, location: tuple[str, int | None, str]) -> None:
    """A test begins."""
    del location
    _note(f"{STARTED}@{time.monotonic()}", nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A phase of a test is over."""
    if report.failed:
        _note(FAILED, report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file is collected."""
    if report.failed:
        _note(FAILED, report.nodeid)

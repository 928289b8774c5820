"""`make bench-spark`, in a short run: every sink writes every row, and the report has a figure for each."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.repo.source import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SINKS = 6
GOALS = 6


def test_all_of_it() -> None:
    """The benchmark runs in its own process, with its own Kafka and Spark."""
    command = [sys.executable, "-m", "benchmarks.spark", "--rounds", "1", "--scale", "0.005", "--no-write"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=290)
    assert done.returncode == 0, done.stderr[-2000:]
    batch = done.stdout.partition("## A batch")[2].partition("##")[0]
    assert len(batch.strip().splitlines()) == 2 + SINKS
    goals = done.stdout.partition("## Goals")[2]
    assert goals.count("met") + goals.count("missed") == GOALS

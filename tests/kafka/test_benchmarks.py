"""The benchmark measures every client, and judges what it measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.measure import Round, check_offsets
from benchmarks.report import goals, rows
from benchmarks.rounds import AIOKAFKA, CLIENTS, CONFLUENT, OURS

_ROOT = Path(__file__).parents[2]


def _table(ours: tuple[float, float]) -> list[bool]:
    measured = {OURS: ours, CONFLUENT: (100.0, 2.0), AIOKAFKA: (20.0, 9.0)}
    results = {c: [Round(1000, 1000 / rate, cpu / 1000, "v")] * 3 for c, (rate, cpu) in measured.items()}
    return [goal.met for goal in goals(rows(results))]


def test_each_goal_is_judged_by_itself() -> None:
    """Twice the rate and half the CPU of confluent-kafka and eight times aiokafka are three verdicts."""
    assert _table((201.0, 0.99)) == [True, True, True]
    assert _table((199.0, 0.99)) == [False, True, True]
    assert _table((159.0, 0.99)) == [False, False, True]
    assert _table((201.0, 1.01)) == [True, True, False]


def test_one_slow_round_does_not_decide() -> None:
    """The figure of a client is the median of its rounds."""
    rounds = [Round(1000, seconds, 1.0, "v") for seconds in (1.0, 50.0, 2.0)]
    assert rows({OURS: rounds})[OURS].rate == 500


@pytest.mark.parametrize(
    "offsets", [{0: [0, 1]}, {0: [0, 1, 3]}, {0: [0, 1, 1]}], ids=["few", "gap", "repeat"]
)
def test_a_round_with_a_lost_or_repeated_record_does_not_count(offsets: dict[int, list[int]]) -> None:
    """A record without an acknowledged offset of its own ends the client's process with an error."""
    with pytest.raises(SystemExit):
        check_offsets(offsets, 3)


@pytest.mark.kafka
def test_every_client_runs() -> None:
    """A tiny run on a real Kafka ends well and has a line for each client."""
    command = [sys.executable, "-m", "benchmarks", "--rounds", "1", "--scale", "0.01", "--no-write"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("round 1: ") == len(CLIENTS)

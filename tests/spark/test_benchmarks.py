"""`make bench-spark` and its further programs, in short runs: every sink writes every row, and has a figure for each."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from benchmarks.spark.long import Look, parts_of
from tests.repo.source import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SINKS = 7
GOALS = 7


def test_all_of_it() -> None:
    """The benchmark runs in its own process, with its own Kafka and Spark."""
    command = [sys.executable, "-m", "benchmarks.spark", "--rounds", "1", "--scale", "0.005", "--no-write"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=290)
    assert done.returncode == 0, done.stderr[-2000:]
    batch = done.stdout.partition("## A batch")[2].partition("##")[0]
    assert len(batch.strip().splitlines()) == 2 + SINKS
    goals = done.stdout.partition("## Goals")[2]
    assert goals.count("met") + goals.count("missed") == GOALS


def test_rows_of_50_columns() -> None:
    """A row for each format, with the rate and the processor time of three sinks, and both beside the connector's."""
    printed = _printed("benchmarks.spark.structured", "--rows", "2000", "--rounds", "1")
    rows = [line.split("|")[1:-1] for line in printed.splitlines() if line.startswith(("| json", "| avro"))]
    assert [row[0].strip() for row in rows] == ["json", "avro"]
    assert {len(row) for row in rows} == {1 + 3 + 3 + 2}


def test_each_shape() -> None:
    """A row for each shape with rates and processor time of four sinks, and this one's beside the connector and confluent-kafka."""
    printed = _printed("benchmarks.spark.shapes", "--bytes", "100000", "--rounds", "1", "--partitions", "4")
    rows = [
        line.split("|")[1:-1] for line in printed.splitlines() if line.startswith(("| 100 B", "| 1,000 B"))
    ]
    assert len(rows) == 2 * 2 * 2
    assert {len(row) for row in rows} == {4 + 4 + 4 + 2 + 1}


def test_one_long_batch() -> None:
    """The table has all tenths. A batch that is so short says nothing of rates and memory, so 1 is right as well."""
    printed = _printed("benchmarks.spark.long", "--rows", "100000", codes=(0, 1))
    assert re.findall(r"^\| (\d+) \|", printed, re.MULTILINE) == [*map(str, range(1, 11))]
    assert "100,000 rows in " in printed


def test_tenths_begin_and_end_between_two_looks() -> None:
    """The first tenth begins with the first rows, and half of the rows between two looks came in half of the time."""
    looks = [Look(0.0, 0, 10, 20), Look(1.0, 50, 10, 20), Look(6.0, 100, 30, 40)]
    parts = parts_of(looks, 100)
    assert [round(part.rate, 1) for part in parts[1:]] == [50.0] * 4 + [10.0] * 5
    assert (parts[9].workers_mb, parts[9].java_mb) == (30, 40)


def _printed(module: str, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=290)
    assert done.returncode in codes, done.stderr[-2000:]
    return done.stdout

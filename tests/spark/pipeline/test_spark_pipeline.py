"""The example of docs and README in a session of the tests; `make proof` runs the program, as `make demo-spark` does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.spark_pipeline import run
from tests.effort import PROOF
from tests.repo.source import ROOT
from tests.spark.conftest import no_producer_is_kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# It needs Java.
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


def require_a_clean_audit(printed: str, report: Path) -> None:
    """200,000 rows of a batch that is run twice, and as many of a stream: each is there once, and there is a picture."""
    told = dict(line.split(maxsplit=1) for line in printed.splitlines() if line)
    assert (told["records"], told["verdict"]) == ("400,000", "clean")
    assert report.read_bytes().startswith(b"\x89PNG")


def test_each_row_is_there_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that the program does in its Spark, without a Kafka."""
    monkeypatch.delenv("KAFKA", raising=False)
    assert run(spark, str(tmp_path / "report.png")) == 0
    require_a_clean_audit(capsys.readouterr().out, tmp_path / "report.png")
    no_producer_is_kept()


if PROOF:

    def test_the_program(tmp_path: Path) -> None:
        """It starts and ends a Spark of its own, and nothing warns."""
        report = tmp_path / "report.png"
        command: list[str | Path] = [
            sys.executable,
            "-W",
            "error",
            ROOT / "examples" / "spark_pipeline.py",
            report,
        ]
        environment = {name: value for name, value in os.environ.items() if name != "KAFKA"}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        require_a_clean_audit(done.stdout, report)

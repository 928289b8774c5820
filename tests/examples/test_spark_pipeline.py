"""The example of docs and README, as `make demo-spark` runs it: without a Kafka, and with a report at its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repo.source import ROOT

# It needs Java.
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


def test_spark_pipeline(tmp_path: Path) -> None:
    """200,000 rows of a batch that is run twice, and as many of a stream: each is there once, and there is a picture."""
    report = tmp_path / "report.png"
    command: list[str | Path] = [
        sys.executable,
        "-W",
        "error",
        ROOT / "examples" / "spark_pipeline.py",
        report,
    ]
    environment = {name: value for name, value in os.environ.items() if name != "KAFKA"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line)
    assert (told["records"], told["verdict"]) == ("400,000", "clean")
    assert report.read_bytes().startswith(b"\x89PNG")

"""Type checkers on programs that use the library: mypy and pyright find the planted errors, and no others."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repo.source import ROOT

PROGRAMS = ROOT / "tests/repo/documents/ported_programs.py"
# Keeps the lint of the whole tree from reporting the planted errors.
UNSEEN = "# mypy: ignore-errors"


def lines_that_are_wrong() -> set[int]:
    """The numbers of the lines that a type checker must refuse."""
    lines = enumerate(PROGRAMS.read_text().splitlines(), 1)
    return {number for number, line in lines if line.endswith("# wrong")}


def output_of(*command: str) -> str:
    """The output of a type checker; one that cannot run at all fails the test."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    run = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 1, run.stdout + run.stderr  # there are lines that are wrong
    return run.stdout


def found_by_mypy(folder: Path) -> set[int]:
    """The lines that mypy refuses, in its strict mode, as a user's project would run it."""
    copy = folder / "program.py"
    copy.write_text(PROGRAMS.read_text().replace(UNSEEN, "#"))
    cache = f"--cache-dir={folder / 'cache'}"
    text = output_of("mypy", "--strict", "--config-file=", cache, str(copy))
    return {int(number) for number in re.findall(r"program\.py:(\d+): error", text)}


def found_by_pyright(folder: Path) -> set[int]:
    """The lines that pyright refuses, in its standard mode."""
    (folder / "program.py").write_text(PROGRAMS.read_text())
    config = {"include": ["program.py"], "extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    text = output_of("pyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(folder))
    return {
        entry["range"]["start"]["line"] + 1
        for entry in json.loads(text)["generalDiagnostics"]
        if entry["severity"] == "error"
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", [found_by_mypy, found_by_pyright])
def test_ported_programs(tmp_path: Path, check: Callable[[Path], set[int]]) -> None:
    """Lambdas, `serializers.string()` for a `str`, narrower and wider producers; and what each of them refuses."""
    assert lines_that_are_wrong()
    assert check(tmp_path) == lines_that_are_wrong()

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

FOLDER = ROOT / "tests/repo/documents"
# One run of a type checker for both: most of its time is that of the library. The second one needs the packages of a
# registry, and pydantic, msgspec and attrs.
PROGRAMS = (FOLDER / "ported_programs.py", FOLDER / "typed_objects.py")
# Keeps the lint of the whole tree from reporting the planted errors.
UNSEEN = "# mypy: ignore-errors"

Places = dict[str, set[int]]
"""Numbers of lines, by the name of their program."""


def places_that_are_wrong() -> Places:
    """The lines that a type checker must refuse."""
    return {path.name: _wrong(path) for path in PROGRAMS}


def _wrong(path: Path) -> set[int]:
    lines = enumerate(path.read_text().splitlines(), 1)
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


def found_by_mypy(folder: Path) -> Places:
    """The lines that mypy refuses, in its strict mode, as a user's project would run it."""
    copies = [folder / path.name for path in PROGRAMS]
    for copy, path in zip(copies, PROGRAMS, strict=True):
        copy.write_text(path.read_text().replace(UNSEEN, "#"))
    cache = f"--cache-dir={folder / 'cache'}"
    text = output_of("mypy", "--strict", "--config-file=", cache, *map(str, copies))
    found: Places = {path.name: set() for path in PROGRAMS}
    for name, number in re.findall(r"(\w+\.py):(\d+): error", text):
        found[name].add(int(number))
    return found


def found_by_pyright(folder: Path) -> Places:
    """The lines that pyright refuses, in its standard mode."""
    names = [path.name for path in PROGRAMS]
    for path in PROGRAMS:
        (folder / path.name).write_text(path.read_text())
    config = {"include": names, "extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    text = output_of("pyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(folder))
    found: Places = {name: set() for name in names}
    for entry in json.loads(text)["generalDiagnostics"]:
        if entry["severity"] == "error":
            found[Path(entry["file"]).name].add(entry["range"]["start"]["line"] + 1)
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", [found_by_mypy, found_by_pyright])
def test_programs(tmp_path: Path, check: Callable[[Path], Places]) -> None:
    """Programs as they come from aiokafka; and `Producer[str, Order]` from end to end, for the objects of four libraries."""
    assert all(places_that_are_wrong().values())
    assert check(tmp_path) == places_that_are_wrong()

"""Building the distribution and using it away from this tree, as programs."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.repo.source import ROOT
from tools.setup_venv import locked

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def run(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """The output of a program that ended well; a failed one fails the test, with its whole output."""
    result = start(*command, cwd=cwd, env=env)
    assert result.returncode == 0, f"{command}\n{result.stdout}"
    return result.stdout


def start(
    *command: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with nothing that leads it back to this tree."""
    environment = {name: value for name, value in (env or os.environ).items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def only(folder: Path, pattern: str) -> Path:
    """The single file of that kind."""
    (path,) = folder.glob(pattern)
    return path


def project() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def pythons() -> dict[str, Path]:
    """The supported Pythons of this machine, by minor version; for its own the one that runs this."""
    listed = run(ROOT / "tools" / "setup_machine.sh", "pythons", cwd=ROOT)
    found = {
        version: Path(path) for version, path in (line.split(maxsplit=1) for line in listed.splitlines())
    }
    return found | {"{}.{}".format(*sys.version_info): Path(sys.executable)}


def build_sdist(folder: Path) -> Path:
    """The sdist of this tree."""
    # What describes it is written into the tree, where two at a time would be in each other's way.
    with locked(ROOT / "build"):
        run(sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT, cwd=folder)
    return only(folder, "*.tar.gz")


def build_wheel(sdist: Path, python: Path, folder: Path) -> Path:
    """The wheel that a Python makes of the sdist alone; in a hurry: what the optimizer does has been tested elsewhere."""
    env = os.environ | {"CFLAGS": "-O1 -g0"}
    run(*PIP, "--python", python, "wheel", "-q", "--no-deps", "-w", folder, sdist, cwd=folder, env=env)
    return only(folder, "*.whl")


def make_environment(python: Path, folder: Path) -> Path:
    """An empty environment; the path of its Python."""
    run(python, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    return folder / "bin" / "python"


def install(python: Path, *requirements: str | Path, env: Mapping[str, str] | None = None) -> None:
    """Install into an environment, by the pip of the one that runs this."""
    run(*PIP, "--python", python, "install", "-q", "--no-compile", *requirements, cwd=python.parent, env=env)

"""The distribution: an sdist that builds a wheel, and a wheel that works far from this tree."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from tests.repo.source import PACKAGE, ROOT, python_files

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]

USE = """
import asyncio, pathlib, sys
import aioproducer
from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka

async def main():
    async with EmbeddedKafka() as kafka, Producer(kafka.bootstrap_servers) as producer:
        metadata = await producer.send_and_wait("orders", b"2 apples", key=b"alice")
        assert metadata.offset == 0, metadata

asyncio.run(main())
print(pathlib.Path(aioproducer.__file__).parent)
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a program to its end, with nothing that leads it back to this tree; its whole output if it failed."""
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of this tree and the wheel that was built from it alone."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return folder


def only(folder: Path, pattern: str) -> Path:
    """The single file of that kind."""
    (path,) = folder.glob(pattern)
    return path


def wheel_files(distributions: Path) -> set[str]:
    """The names inside the wheel."""
    with zipfile.ZipFile(only(distributions, "*.whl")) as wheel:
        return set(wheel.namelist())


def compiled_modules() -> list[str]:
    """Paths, without their ends, of the compiled modules that pyproject.toml declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [each["name"].replace(".", "/") for each in project["tool"]["setuptools"]["ext-modules"]]


def test_wheel_holds_compiled_modules_and_their_stubs(distributions: Path) -> None:
    """Each compiled module is in the wheel as a library with its stub, beside py.typed and the licence."""
    files = wheel_files(distributions)
    assert "aioproducer/py.typed" in files
    assert any(name.endswith("licenses/LICENSE") for name in files)
    for module in compiled_modules():
        assert f"{module}.pyi" in files
        assert sum(name.startswith(f"{module}.") and name.endswith((".so", ".pyd")) for name in files) == 1


def test_wheel_holds_every_module(distributions: Path) -> None:
    """The Python files of the wheel are those of the tree."""
    modules = {name for name in wheel_files(distributions) if name.endswith(".py")}
    assert modules == {str(path.relative_to(ROOT)) for path in python_files(PACKAGE)}


def test_wheel_holds_nothing_else(distributions: Path) -> None:
    """No C, no Cython, no tests, no tools: Python, stubs, libraries and metadata only."""
    ends = (".py", ".pyi", ".so", ".pyd", "py.typed")
    strangers = {
        name for name in wheel_files(distributions) if ".dist-info/" not in name and not name.endswith(ends)
    }
    outside = {name for name in wheel_files(distributions) if not name.startswith("aioproducer")}
    assert strangers | outside == set()


def test_sdist_holds_the_sources_and_nothing_built(distributions: Path) -> None:
    """The sdist has the Cython sources, the tests and the documents, and nothing that a compiler wrote."""
    with tarfile.open(only(distributions, "*.tar.gz")) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    needed = {f"{module}.pyx" for module in compiled_modules()}
    needed |= {
        "CHANGELOG.md",
        "LICENSE",
        "Makefile",
        "README.md",
        "docs/design.md",
        "tests/repo/test_packaging.py",
    }
    assert needed - names == set()
    assert {name for name in names if name.endswith((".c", ".so", ".pyc"))} == set()


def test_installed_wheel_sends_a_record(distributions: Path, tmp_path: Path) -> None:
    """In an empty environment, far from the tree, the wheel installs with its dependencies and sends."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", only(distributions, "*.whl"), cwd=tmp_path)
    installed = run(python, "-I", "-c", USE, cwd=tmp_path).strip().splitlines()[-1]
    assert Path(installed).is_relative_to(tmp_path)
    assert "usage: aioproducer" in run(tmp_path / "env" / "bin" / "aioproducer", "--help", cwd=tmp_path)

"""The distribution: an sdist that builds a wheel, and a wheel that works far from this tree."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.repo.packaging.distribution import install, make_environment, project, run, start
from tests.repo.source import PACKAGE, ROOT, python_files

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]


def files_of(wheel: Path) -> set[str]:
    """The names inside the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


# What stands beside the package: where Spark looks for data sources, and the plugin of pytest.
BESIDE = {"pyspark_aioproducer.py", "pytest_aioproducer.py"}


def compiled_modules() -> list[str]:
    """Paths, without their ends, of the compiled modules that pyproject.toml declares."""
    return [each["name"].replace(".", "/") for each in project()["tool"]["setuptools"]["ext-modules"]]


def test_wheel_holds_compiled_modules_and_their_stubs(wheel: Path) -> None:
    """Each compiled module is in the wheel as a library with its stub, beside py.typed and the licence."""
    files = files_of(wheel)
    assert "aioproducer/py.typed" in files
    assert any(name.endswith("licenses/LICENSE") for name in files)
    for module in compiled_modules():
        assert f"{module}.pyi" in files
        assert sum(name.startswith(f"{module}.") and name.endswith((".so", ".pyd")) for name in files) == 1


def test_compiled_modules_have_no_symbols(wheel: Path) -> None:
    """The wheel has no symbols for debuggers, which take five times the code; the libraries in the tree keep them."""
    with zipfile.ZipFile(wheel) as archive:
        libraries = {name: archive.read(name) for name in archive.namelist() if name.endswith(".so")}
    assert len(libraries) == len(compiled_modules())
    assert [
        name for name, library in libraries.items() if b".symtab" in library or b".debug_" in library
    ] == []


def test_wheel_holds_every_module(wheel: Path) -> None:
    """The Python files of the wheel are those of the tree, and those by which Spark and pytest find them."""
    modules = {name for name in files_of(wheel) if name.endswith(".py")}
    assert modules == {str(path.relative_to(ROOT)) for path in python_files(PACKAGE)} | BESIDE


def test_wheel_holds_nothing_else(wheel: Path) -> None:
    """No C, no Cython, no tests, no tools: Python, stubs, libraries and metadata only."""
    ends = (".py", ".pyi", ".so", ".pyd", "py.typed")
    strangers = {name for name in files_of(wheel) if ".dist-info/" not in name and not name.endswith(ends)}
    outside = {name for name in files_of(wheel) if not name.startswith("aioproducer")}
    assert strangers | outside == BESIDE


def test_metadata_has_addresses_and_a_description_with_whole_links(wheel: Path) -> None:
    """A package index shows the addresses of the project, and a description whose links do not need this tree."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = archive.read(name).decode()
    for label, url in project()["project"]["urls"].items():
        assert f"Project-URL: {label}, {url}\n" in metadata
    assert "Description-Content-Type: text/markdown\n" in metadata
    assert "](https://" in metadata
    assert "](docs/" not in metadata


def test_sdist_holds_the_sources_and_nothing_built(sdist: Path) -> None:
    """The sdist has the Cython sources, the tests and the documents, and nothing that a compiler wrote."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {f"{module}.pyx" for module in compiled_modules()}
    needed |= {
        "CHANGELOG.md",
        "LICENSE",
        "Makefile",
        "README.md",
        "docs/design.md",
        "tests/repo/packaging/test_packaging.py",
    }
    assert needed - names == set()
    assert {name for name in names if name.endswith((".c", ".so", ".pyc"))} == set()


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel and what it depends on."""
    python = make_environment(Path(sys.executable), tmp_path_factory.mktemp("installed") / "env")
    install(python, wheel)
    return python


def test_installed_wheel_sends_a_record(environment: Path, tmp_path: Path) -> None:
    """In an empty environment, far from the tree, the wheel installs with its dependencies and sends."""
    installed = run(environment, "-I", ROOT / "tests" / "repo" / "packaging" / "smoke.py", cwd=tmp_path)
    assert Path(installed.strip()).is_relative_to(environment.parent.parent)


def test_command_without_its_extra_names_it(environment: Path, tmp_path: Path) -> None:
    """The command says in one line what to install."""
    result = start(environment.with_name("aioproducer"), "demo", cwd=tmp_path)
    assert result.returncode == 2
    (line,) = result.stdout.splitlines()
    assert "pip install" in line
    assert "aioproducer[cli]" in line


def test_extra_brings_the_command(wheel: Path, tmp_path: Path) -> None:
    """Installed as `aioproducer[cli]`, the command is there and explains itself."""
    python = make_environment(Path(sys.executable), tmp_path / "env")
    install(python, f"{wheel}[cli]")
    told = run(python.with_name("aioproducer"), "--help", cwd=tmp_path)
    assert told.lower().strip().startswith("usage: aioproducer")

"""The rules of the architecture that import-linter cannot see."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import grimp
import pytest

from tests.repo.source import PACKAGE, ROOT, imported, place, python_files_with

CORE = PACKAGE / "_core"
COMPILED = {f"aioproducer._core.{path.stem}" for path in CORE.glob("*.pyx")}


def test_only_the_door_imports_compiled_modules() -> None:
    """Python code of the package reaches the compiled core through its `__init__` alone."""
    assert COMPILED
    found = [
        place(path, node)
        for path in python_files_with(PACKAGE, {"_core"})
        for node, name in imported(path)
        if path != CORE / "__init__.py"
        and any(name == module or name.startswith(f"{module}.") for module in COMPILED)
    ]
    assert found == []


def test_every_compiled_module_is_built_and_stubbed() -> None:
    """Each .pyx has its entry in pyproject.toml and its stub, and neither exists without one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    built = {each["name"] for each in project["tool"]["setuptools"]["ext-modules"]}
    stubbed = {f"aioproducer._core.{path.stem}" for path in CORE.glob("*.pyi") if path.stem != "__init__"}
    assert built == COMPILED
    assert stubbed == COMPILED


def read_by(source: Path) -> set[Path]:
    """The files that the compiler reads for a Cython source: declarations, includes, headers, and the files of these."""
    text = source.read_text()
    names = re.findall(r'(?:^\s*include|extern from)\s+"([^"]+)"', text, re.MULTILINE)
    names += [f"{name}.pxd" for name in re.findall(r"from aioproducer\._core\.(\w+) cimport", text)]
    if source.suffix == ".pyx":
        names.append(f"{source.stem}.pxd")
    direct = {CORE / name for name in names if (CORE / name).exists()} - {source}
    return direct.union(*(read_by(each) for each in direct if each.suffix != ".h"))


def test_a_change_of_what_is_included_rebuilds_a_module() -> None:
    """`depends` of every compiled module is what the compiler reads for it: declarations, includes and headers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for module in project["tool"]["setuptools"]["ext-modules"]:
        needed = {str(path.relative_to(ROOT)) for path in read_by(ROOT / module["sources"][0])}
        assert set(module.get("depends", [])) == needed, module["name"]


def test_each_part_of_a_module_says_what_it_uses() -> None:
    """A `.pxi` has no imports: its head names the module that includes it, and what it uses of the other parts."""
    for part in CORE.glob("*.pxi"):
        lines = part.read_text().splitlines()
        start = next(number for number, line in enumerate(lines) if line.startswith("# Part of "))
        head = lines[start]
        if not head.endswith("."):
            head += lines[start + 1].removeprefix("#")
        module = head.removeprefix("# Part of ").split(".pyx", 1)[0]
        assert f'include "{part.name}"' in (CORE / f"{module}.pyx").read_text(), part.name
        for file, names in re.findall(r"(\w+\.(?:pyx|pxi|pxd)) \(([^)]*)\)", head):
            text = (CORE / file).read_text()
            for name in (name for name in names.split(", ") if name.isidentifier()):
                assert re.search(rf"\b{name}\b", text), (part.name, file, name)
                assert re.search(rf"\b{name}\b", "\n".join(lines[start + 2 :])), (part.name, name)


@pytest.mark.parametrize("macro", ["PYPY_VERSION", "Py_GIL_DISABLED"])
def test_an_interpreter_without_what_the_core_needs_is_named_by_the_compiler(macro: str) -> None:
    """One `#error` with one sentence, in the header that each module includes before all others."""
    compiler = shutil.which("cc")
    assert compiler is not None
    command = [compiler, "-fsyntax-only", f"-D{macro}", "-x", "c", str(CORE / "platform.h")]
    said = subprocess.run(command, check=False, capture_output=True, text=True)
    assert said.returncode != 0
    assert said.stderr.count("error:") == 1
    assert "aioproducer needs " in said.stderr
    for module in CORE.glob("*.pyx"):
        assert re.findall(r'extern from "(.*)"', module.read_text())[0] == "platform.h"


def test_the_lowest_setuptools_can_compile_every_module() -> None:
    """Entries of pyproject.toml hold strings and lists of strings: setuptools 77 takes no list in a list for a macro."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for module in project["tool"]["setuptools"]["ext-modules"]:
        for value in module.values():
            assert isinstance(value, str) or all(isinstance(item, str) for item in value), module["name"]


def test_compiled_core_knows_no_loop_and_no_clock_but_its_own() -> None:
    """The core imports no anyio, time, logging or random, and of asyncio the exceptions only."""
    imports = re.compile(r"^\s*(?:from\s+(\w+)[\w.]*\s+)?c?import\s+(\w+)(.*)$", re.MULTILINE)
    exceptions = {"CancelledError", "InvalidStateError"}
    for path in CORE.glob("*.pyx"):
        for origin, name, rest in imports.findall(path.read_text()):
            allowed = origin == "asyncio" and {name, *rest.replace(",", " ").split()} <= exceptions
            forbidden = (origin or name) in {"asyncio", "anyio", "time", "logging", "random"}
            assert allowed or not forbidden, (path.name, origin, name)


# A circle of so many files is read as one piece.
LARGEST_CIRCLE = 3


def test_circles_of_imports_are_small() -> None:
    """No circle of imports, those of types included, has more than three files, and none leaves its room."""
    graph = grimp.build_graph("aioproducer", cache_dir=None)
    # The compiled modules are invisible: the door's import of one looks like an import of the root package.
    graph.remove_import(importer="aioproducer._core", imported="aioproducer")
    circles = {
        frozenset({module} | graph.find_upstream_modules(module) & graph.find_downstream_modules(module))
        for module in graph.modules
    }
    large = [sorted(circle) for circle in circles if len(circle) > LARGEST_CIRCLE]
    across = [
        sorted(circle)
        for circle in circles
        if len({module.rpartition(".")[0] for module in circle} - {"aioproducer"}) > 1
    ]
    assert (large, across) == ([], [])

"""The rules of the architecture that import-linter cannot see."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

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
    """What the compiler reads besides a Cython source: its declarations, includes and headers, and what they read."""
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

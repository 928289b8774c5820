"""Reading the project's own source."""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterator
from pathlib import Path

from tests.collector import stopped

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "aioproducer"


def python_files(folder: Path) -> list[Path]:
    """The Python sources below a folder."""
    found = sorted(path for path in folder.rglob("*.py") if "build" not in path.relative_to(folder).parts)
    assert found, f"no Python sources below {folder}"
    return found


def python_files_with(folder: Path, words: Collection[str]) -> list[Path]:
    """The Python sources below a folder in which one of these words occurs: to read a file is quicker than to parse it."""
    files = [(path, path.read_text()) for path in python_files(folder)]
    return [path for path, text in files if any(word in text for word in words)]


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a source file."""
    with stopped():
        return ast.parse(path.read_text(), str(path))


def nodes(path: Path) -> Iterator[ast.AST]:
    """Every node of a source file."""
    return ast.walk(parsed(path))


def place(path: Path, node: ast.AST) -> str:
    """Where to look."""
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def imported(path: Path) -> Iterator[tuple[ast.AST, str]]:
    """Every module that a file imports, and every name it takes from one, as full dotted names."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    package = module.removesuffix(".__init__").split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield node, origin
            yield from ((node, f"{origin}.{alias.name}") for alias in node.names)

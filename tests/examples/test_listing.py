"""No example is forgotten: each is listed for its readers, and run by a test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.examples.programs import EXAMPLES
from tests.repo.source import ROOT, nodes, python_files

TESTS = [
    path
    for folder in ("examples", "repo", "spark/pipeline")
    for path in python_files(ROOT / "tests" / folder)
]


def examples() -> set[Path]:
    """The files of the examples."""
    found = {path for path in EXAMPLES.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    return found - {EXAMPLES / "README.md"}


def named_in_tests() -> set[str]:
    """Every string in the code of the tests that run examples."""
    return {
        node.value
        for path in TESTS
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_example_is_listed() -> None:
    """examples/README.md links to each file."""
    links = re.findall(r"\]\(([^)]+)\)", (EXAMPLES / "README.md").read_text())
    assert {EXAMPLES / link for link in links} == examples()


def test_every_example_is_run() -> None:
    """A test names each file that lies in examples/, or the folder that it lies in."""
    named = named_in_tests()
    pieces = {path.relative_to(EXAMPLES).parts[0] for path in examples()}
    assert pieces - named == set()


def test_examples_use_public_names_only() -> None:
    """No example imports a module of ours whose name begins with an underscore."""
    imports = re.compile(r"^\s*(?:from|import) aioproducer\S*\._", re.MULTILINE)
    assert [path.name for path in examples() if imports.search(path.read_text())] == []

"""Documents and sources name things and not persons; prose wraps at 120 columns; addresses in errors exist."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from aioproducer import documentation
from tests.repo.documents.document_code import DOCUMENTS, name_of
from tests.repo.source import PACKAGE, ROOT, nodes, python_files

COLUMNS = 120
# Persons and riddles in place of a thing: the task, the caller, the broker, the record.
FORBIDDEN = re.compile(
    r"\b(somebody|whoever|whomever|nobody|nobody's|everybody|anybody|told of)\b", re.IGNORECASE
)
# The same in docstrings and comments, with more riddles.
FORBIDDEN_IN_SOURCES = re.compile(
    r"\b(somebody|someone|whoever|whomever|nobody|nobody's|everybody|anybody|told of|once more|for ever"
    r"|what (?:is|was|are|were)|everyone|(?:is|are) told|tells? of)\b|(?-i:\bWho\b)",
    re.IGNORECASE,
)
# The first word of a docstring that has a noun clause in the place of a noun; behind the quotes in Cython.
RIDDLE = re.compile(r'(?:""")?\s*What\b')
FOLDERS = ("aioproducer", "examples", "benchmarks", "tools", "tests")
SUFFIXES = {".py", ".pyx", ".pxi", ".pxd", ".h"}
PAGES = DOCUMENTS
# In Cython and C.
COMMENT = re.compile(r'#[^\n]*|""".*?"""|/\*.*?\*/', re.DOTALL)
UNSEEN = re.compile(r"^```.*?^```$|^<!--.*?-->$", re.MULTILINE | re.DOTALL)
# Lines that cannot wrap: rows of tables, headings, pictures.
UNWRAPPED = ("|", "#", "![")


def prose(document: Path) -> list[tuple[int, str]]:
    """The lines of a document outside of code and comments, with their numbers."""
    text = UNSEEN.sub(lambda match: "\n" * match[0].count("\n"), document.read_text())
    return list(enumerate(text.splitlines(), 1))


@pytest.mark.parametrize("document", PAGES, ids=name_of)
def test_prose_names_things(document: Path) -> None:
    """No sentence or table of a page has a person in the place of a thing."""
    found = [f"{number}: {word}" for number, line in prose(document) for word in FORBIDDEN.findall(line)]
    assert found == []


def comments(source: Path) -> list[tuple[int, str]]:
    """The comments and docstrings of a source, line by line, with their numbers."""
    text = source.read_text()
    if source.suffix != ".py":
        return [(text.count("\n", 0, match.start()) + 1, match[0]) for match in COMMENT.finditer(text)]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    remarks = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    # A string that is a statement: of a module, a class, a function, or behind a name.
    constants = [
        node.value
        for node in nodes(source)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    return remarks + [(node.lineno, node.value) for node in constants if isinstance(node.value, str)]


def sources_of(folder: str) -> list[Path]:
    """The sources of a folder and those below it; of the root, only its own modules."""
    paths = sorted(ROOT.glob("*") if folder == "." else (ROOT / folder).rglob("*"))
    sources = [path for path in paths if path.suffix in SUFFIXES]
    assert sources
    return sources


def found_in(folder: str, faults_of: Callable[[str], list[str]]) -> list[str]:
    """The faults of the comments and docstrings of a folder, with their places."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {fault}"
        for path in sources_of(folder)
        for number, text in comments(path)
        for fault in faults_of(text)
    ]


@pytest.mark.parametrize("folder", [".", *FOLDERS])
def test_sources_name_things(folder: str) -> None:
    """No docstring or comment has a person or a riddle in the place of a thing, and none begins with "What".

    The first word names the value, the state or the fact.
    """

    def faults_of(text: str) -> list[str]:
        return [*FORBIDDEN_IN_SOURCES.findall(text), *([text[:60]] if RIDDLE.match(text) else [])]

    assert found_in(folder, faults_of) == []


@pytest.mark.parametrize("document", PAGES, ids=name_of)
def test_prose_wraps(document: Path) -> None:
    """A line of prose has at most 120 columns; rows of tables, headings and pictures stay whole."""
    found = [
        number for number, line in prose(document) if len(line) > COLUMNS and not line.startswith(UNWRAPPED)
    ]
    assert found == []


def test_the_project_has_one_address() -> None:
    """Every address of the project begins with `documentation.PROJECT`; no other file than the two that state it spells it out."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Documentation"] == documentation.page("README.md")
    assert [url for url in urls.values() if not url.startswith(documentation.PROJECT)] == []
    host = documentation.PROJECT.removeprefix("https://")
    written = [*DOCUMENTS, *(ROOT.glob("*.toml")), *(ROOT.glob("*.py")), *(ROOT.glob(".github/**/*.yml"))]
    folders = [PACKAGE, *(ROOT / name for name in ("tests", "examples", "benchmarks", "tools"))]
    written += [path for folder in folders for path in python_files(folder)]
    with_the_host = [str(path.relative_to(ROOT)) for path in written if host in path.read_text()]
    assert sorted(with_the_host) == ["aioproducer/documentation.py", "pyproject.toml"]


def test_errors_name_the_published_pages() -> None:
    """The pages that errors name are pages of the project's documentation."""
    sources = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyx")]
    named = {
        name for path in sources for name in re.findall(r"\bpage\(['\"]([\w.#-]+)['\"]\)", path.read_text())
    }
    assert len(named) > 2
    assert [name for name in sorted(named) if not (ROOT / "docs" / name.partition("#")[0]).exists()] == []


def test_errors_name_no_file_of_a_checkout() -> None:
    """A text of the package that says where to read on has an address: an installed package has no docs/ folder."""
    sources = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyx"), *PACKAGE.rglob("*.pxi")]
    found = [
        str(path.relative_to(ROOT))
        for path in sources
        if re.search(r"see docs/|in docs/", re.sub(r'""".*?"""|#.*', "", path.read_text(), flags=re.DOTALL))
    ]
    assert found == []

"""Links, commands, methods, figures and versions in README, docs and examples exist."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from aioproducer import Delivery, Producer, TransactionError, errors
from aioproducer._state.transactions.table import State
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.repo.documents.document_code import DOCUMENTS, Kind, blocks, every, name_of
from tests.repo.documents.document_runs import run, run_program
from tests.repo.source import ROOT
from tools import readme_figures
from tools.version import current

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"`((?:python -m )?aioproducer [^`]+|make [^`]+|pip install [^`]+)`")
# Commands of a shell block that are not checked: their arguments are not defined by this project.
OF_THE_SYSTEM = {"cat", "kafka-topics.sh", "seq", "spark-submit", "tail", "tar"}


def anchors(document: Path) -> set[str]:
    """The names of a document's headings, as a forge makes them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def broken_links(document: Path) -> list[str]:
    """Links of a document into this tree that lead nowhere."""
    broken = []
    for link in LINK.findall(document.read_text()):
        target, _, anchor = link.partition("#")
        if "://" in link:
            continue
        path = (document.parent / target).resolve() if target else document
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            broken.append(link)
    return broken


def commands() -> set[tuple[str, ...]]:
    """Every command that a document shows, in a block or in a sentence, word by word."""
    lines = [line for block in every(Kind.COMMANDS) for line in block.source.replace("\\\n", "").splitlines()]
    lines += [line for document in DOCUMENTS for line in COMMAND.findall(document.read_text())]
    parts = [part for line in lines for part in re.split(r"[|<>]", line.partition(" # ")[0])]
    return {tuple(shlex.split(part)) for part in parts if part.strip()} - {()}


def of_ours() -> set[tuple[str, ...]]:
    """The commands that are this package's own: what follows `aioproducer`."""
    found = {words[1:] for words in commands() if words[0] == "aioproducer"}
    return found | {words[3:] for words in commands() if words[:3] == ("python", "-m", "aioproducer")}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_resolve(document: Path) -> None:
    """Every relative link leads to a file of this tree, and to a heading that is there."""
    assert broken_links(document) == []


async def test_quickstart_says_where_its_records_are(tmp_path: Path) -> None:
    """The example quickstart prints the places of its two records, and they are there."""
    async with EmbeddedKafka() as kafka:
        output = await run_program((ROOT / "examples" / "quickstart.py").read_text(), tmp_path, kafka)
        records = list(kafka.records("orders"))
    assert [record.value for record in records] == [b"2 apples", b"3 pears"]
    assert output.splitlines() == [
        f"orders-{record.partition} at offset {record.offset}" for record in records
    ]


def test_commands_are_known_ones() -> None:
    """A document shows commands of this project, `pip install`, and a few of every system."""
    foreign = {words[0] for words in commands()} - {"aioproducer", "make", "pip", "python"} - OF_THE_SYSTEM
    assert foreign == set()


def test_make_targets_exist() -> None:
    """Every `make` target that is named is in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {words[1] for words in commands() if words[0] == "make"}
    assert {"demo", "test"} <= named <= targets


def test_extras_exist() -> None:
    """Each name in brackets behind the package in `pip install` is an extra of it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {words[-1] for words in commands() if words[:2] == ("pip", "install")}
    named = {extra for each in asked for extra in re.findall(r"\[(\w+)\]", each)}
    assert "cli" in named
    assert named <= set(project["optional-dependencies"])


async def test_our_commands_exist(tmp_path: Path) -> None:
    """Every command `aioproducer …` that is shown is there, with each of its options."""
    shown = of_ours()
    names = sorted({words[0] for words in shown if words and not words[0].startswith("-")})
    assert {"broker", "demo"} <= set(names)
    texts = {name: await help_of(name, tmp_path) for name in names}
    missing = [
        (name, word)
        for name, *rest in shown
        for word in rest
        if word.startswith("--") and word.partition("=")[0] not in texts[name]
    ]
    assert missing == []


async def help_of(command: str, folder: Path) -> str:
    """The help of a command; it fails where there is no such command."""
    wide = {"COLUMNS": "200", "NO_COLOR": "1", "HOME": os.environ.get("HOME", "")}
    return await run(sys.executable, "-m", "aioproducer", command, "--help", folder=folder, **wide)


@pytest.mark.parametrize(
    ("noun", "kinds"), [("producer", (Producer, MockProducer)), ("delivery", (Delivery,))]
)
def test_methods_exist(noun: str, kinds: tuple[type, ...]) -> None:
    """Whatever a sentence calls on a producer or a delivery is there."""
    called = rf"`{noun}\.([a-z_]+)\("
    named = {name for document in DOCUMENTS for name in re.findall(called, document.read_text())}
    assert named
    assert [name for name in sorted(named) if not any(hasattr(kind, name) for kind in kinds)] == []


def test_transactions_are_drawn_and_explained() -> None:
    """The page about transactions has every state of the table, and a line for each of their errors."""
    text = (ROOT / "docs" / "transactions.md").read_text()
    picture = next(block for block in blocks(ROOT / "docs" / "transactions.md") if block.kind is Kind.PLAIN)
    assert [each.name for each in State if each.name not in picture.source + "FATAL"] == []
    named = {
        each.__name__
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, TransactionError)
    }
    table = text.partition("## What do I do now?")[2]
    assert [name for name in sorted(named) if f"`{name}`" not in table] == []


def test_readme_shows_the_figures_that_were_measured() -> None:
    """Day and table in the README are those of benchmarks/RESULTS.md."""
    shown = readme_figures.shown((ROOT / "README.md").read_text())
    assert shown == readme_figures.figures((ROOT / "benchmarks" / "RESULTS.md").read_text())


def test_changelog_knows_this_version() -> None:
    """The changelog has a section for the release in pyproject.toml, or one for unreleased changes."""
    section = "Unreleased" if ".dev" in current() else current()
    assert f"\n## {section}\n" in (ROOT / "CHANGELOG.md").read_text()

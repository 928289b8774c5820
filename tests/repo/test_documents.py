"""What README, docs and examples say is true: their code runs, their links lead somewhere."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from aioproducer.testing import EmbeddedKafka
from tests.repo.source import ROOT
from tools import readme_figures

DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
README_BLOCKS = BLOCK.findall((ROOT / "README.md").read_text())


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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(document: Path) -> None:
    """Every relative link leads to a file of this tree, and to a heading that is there."""
    assert broken_links(document) == []


async def run_program(source: str, folder: Path, kafka: EmbeddedKafka) -> str:
    """Run a program as a user would, with the embedded Kafka in the place of localhost:9092."""
    program = folder / "program.py"
    program.write_text(source.replace("localhost:9092", kafka.bootstrap_servers))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        str(program),
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


@pytest.mark.parametrize("source", README_BLOCKS, ids=[f"block {n}" for n, _ in enumerate(README_BLOCKS, 1)])
async def test_readme_code_runs(source: str, tmp_path: Path) -> None:
    """Each Python block of the README is a program that runs to its end without a warning."""
    async with EmbeddedKafka() as kafka:
        await run_program(source, tmp_path, kafka)


async def test_first_readme_example_writes_a_record(tmp_path: Path) -> None:
    """The 10-line example really has at most 10 lines of code, and its record is in the log."""
    code = [line for line in README_BLOCKS[0].splitlines() if line.strip()]
    assert len(code) <= 10
    async with EmbeddedKafka() as kafka:
        await run_program(README_BLOCKS[0], tmp_path, kafka)
        assert [record.value for record in kafka.records("orders")] == [b"2 apples"]


async def test_quickstart_says_where_its_records_are(tmp_path: Path) -> None:
    """The quickstart prints the places of its two records, and they are there."""
    async with EmbeddedKafka() as kafka:
        output = await run_program((ROOT / "examples" / "quickstart.py").read_text(), tmp_path, kafka)
        records = list(kafka.records("orders"))
    assert [record.value for record in records] == [b"2 apples", b"3 pears"]
    assert output.splitlines() == [
        f"orders-{record.partition} at offset {record.offset}" for record in records
    ]


def test_readme_names_the_commands_that_exist() -> None:
    """Every `make` target that README or docs name is in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for document in DOCUMENTS for name in re.findall(r"`make ([a-z-]+)`", document.read_text())}
    assert {"demo", "test"} <= named <= targets


def test_readme_shows_the_figures_that_were_measured() -> None:
    """Day and table in the README are those of benchmarks/RESULTS.md."""
    shown = readme_figures.shown((ROOT / "README.md").read_text())
    assert shown == readme_figures.figures((ROOT / "benchmarks" / "RESULTS.md").read_text())


def test_changelog_knows_this_version() -> None:
    """The changelog has a section for the version in pyproject.toml."""
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text()

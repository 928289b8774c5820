"""The Python in README, docs and examples runs, and none can be added that does not."""

from __future__ import annotations

import ast
import logging
import re
from collections import Counter
from pathlib import Path

import pytest

from aioproducer.testing import EmbeddedKafka
from tests.repo.documents.document_code import DOCUMENTS, Block, Kind, blocks, every, name_of
from tests.repo.documents.document_runs import run_fragments, run_program, run_tests
from tests.repo.source import ROOT

README_PROGRAMS = [block for block in blocks(ROOT / "README.md") if block.kind is Kind.PROGRAM]
# Blocks that do not run, by page. Each has its reason above it, in the page.
EXEMPT = {"docs/migrating.md": 1, "docs/outbox.md": 1}
LOOKS_LIKE_PYTHON = re.compile(
    r"^\s*(await |async |import \w+$|from \w+ import |with |def |print\()", re.MULTILINE
)
HIDDEN_SHAPES = re.compile(r"^([ >\t]+```|\s*~~~|<pre|<code)", re.MULTILINE)


def pages_with(kind: Kind) -> list[Path]:
    """The documents that have blocks of this kind."""
    return [page for page in DOCUMENTS if any(block.kind is kind for block in blocks(page))]


@pytest.mark.parametrize("block", every(Kind.PROGRAM), ids=lambda block: block.place)
async def test_program_runs(block: Block, tmp_path: Path) -> None:
    """A block that is a program runs to its end without a warning."""
    async with EmbeddedKafka() as kafka:
        await run_program(block.source, tmp_path, kafka)


@pytest.mark.parametrize("page", pages_with(Kind.FRAGMENT), ids=name_of)
async def test_fragments_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The fragments of a page run one after the other, and do what the page says."""
    monkeypatch.chdir(tmp_path)
    # One of them sets the level of the library's logger, which later tests read the lines of.
    with caplog.at_level(logging.NOTSET, logger="aioproducer"):
        await run_fragments(block for block in blocks(page) if block.kind is Kind.FRAGMENT)


@pytest.mark.parametrize("page", pages_with(Kind.TESTS), ids=name_of)
async def test_test_modules_pass(page: Path, tmp_path: Path) -> None:
    """Every block of a page that is a test module passes."""
    modules = [block for block in blocks(page) if block.kind is Kind.TESTS]
    tests = sum(len(re.findall(r"^(?:async )?def test_", each.source, re.MULTILINE)) for each in modules)
    assert f"{tests} passed" in await run_tests(modules, tmp_path)


async def test_first_readme_example_writes_a_record(tmp_path: Path) -> None:
    """The 10-line example really has at most 10 lines of code, and its record is in the log."""
    source = README_PROGRAMS[0].source
    assert len([line for line in source.splitlines() if line.strip()]) <= 10
    async with EmbeddedKafka() as kafka:
        await run_program(source, tmp_path, kafka)
        assert [record.value for record in kafka.records("orders")] == [b"2 apples"]


def test_every_fence_says_what_it_holds() -> None:
    """A fence is `python`, `python` and a library, `sh`, `properties`, or text: others would not be run by anything."""
    assert [block.place for block in every(Kind.UNKNOWN)] == []


def test_no_code_stands_where_nobody_looks() -> None:
    """Code stands in fences at the left margin, not in lists, quotes or HTML."""
    found = [
        f"{name_of(page)}: {each}" for page in DOCUMENTS for each in HIDDEN_SHAPES.findall(page.read_text())
    ]
    assert found == []


def test_every_fence_was_found() -> None:
    """Each fence that is opened is closed, and is one of the blocks."""
    for page in DOCUMENTS:
        marks = len(re.findall(r"^```", page.read_text(), re.MULTILINE))
        unseen = len(re.findall(r"^<!-- (?:given|then)$", page.read_text(), re.MULTILINE))
        assert (name_of(page), marks / 2 + unseen) == (name_of(page), len(blocks(page)))


def test_plain_text_is_no_python() -> None:
    """No Python is kept from running by calling it text."""
    found = [block.place for block in every(Kind.PLAIN) if LOOKS_LIKE_PYTHON.search(block.source)]
    assert found == []


def test_exemptions_are_counted() -> None:
    """As many blocks are kept from running as are allowed by name of their page, and no more."""
    assert Counter(name_of(block.document) for block in every(Kind.EXEMPT)) == EXEMPT


def test_all_python_can_be_parsed() -> None:
    """Code that is not run, or is for another library, is also valid Python."""
    for block in every(Kind.EXEMPT, Kind.FOREIGN):
        ast.parse(block.source, block.place)


PAGE = """\
```python
await producer.send("orders")
```

```python
asyncio.run(main())
```

```python
def test_it() -> None: ...
```

<!-- given
rows = []
-->

<!-- not run: for a reason -->

```python
await nothing()
```

Another sentence.

```python aiokafka
```

```python pykafka
```

```sh
make test
```

```toml
```

```
plain
```
"""


def test_a_block_is_of_the_kind_that_it_looks_like(tmp_path: Path) -> None:
    """The language of a fence, its content and the lines above it decide its treatment."""
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert [block.kind for block in blocks(page)] == [
        Kind.FRAGMENT,
        Kind.PROGRAM,
        Kind.TESTS,
        Kind.FRAGMENT,
        Kind.EXEMPT,
        Kind.FOREIGN,
        Kind.UNKNOWN,
        Kind.COMMANDS,
        Kind.UNKNOWN,
        Kind.PLAIN,
    ]


def test_a_reason_is_for_the_next_fence_only(tmp_path: Path) -> None:
    """Words between a reason and a fence take its exemption away, and without a reason there is none."""
    page = tmp_path / "page.md"
    code = "```python\npass\n```\n"
    page.write_text(f"<!-- not run: why -->\n\nWords.\n\n{code}\n<!-- not run: -->\n\n{code}")
    assert [block.kind for block in blocks(page)] == [Kind.FRAGMENT, Kind.FRAGMENT]


async def test_a_fragment_that_fails_names_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a fragment names the page and its line."""
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\nawait asyncio.sleep(0)\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        await run_fragments(blocks(page))
    assert (str(caught.traceback[-1].path), caught.traceback[-1].lineno + 1) == (str(page), 5)

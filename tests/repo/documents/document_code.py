"""The code in the documents: where it stands, and what kind of code it is.

A fence `python` is code of ours, and runs; what runs it follows from what it is:

* with `asyncio.run(` it is a program: it runs by itself, in a process of its own, with warnings as errors;
* with a function `test_…` it is a test module: pytest runs it;
* anything else is a fragment: the fragments of one page run one after the other in one namespace, where `await` is
  allowed and the public names of the package, a running `producer` and its `kafka` are there. A comment `<!-- given` or
  `<!-- then` holds code that runs with them but is not shown: what a fragment needs, and what it must have done.

`localhost:9092` stands for the embedded Kafka. A fence `python aiokafka` (or another library) is a program for that
library. `<!-- not run: the reason -->` above a fence keeps it from running; such fences are counted.
"""

from __future__ import annotations

import enum
import re
from pathlib import Path

import attrs

from tests.repo.source import ROOT

DOCUMENTS = (
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
)
# What a fence may say besides `python`.
LANGUAGES = {"sh": "COMMANDS", "text": "PLAIN", "properties": "PLAIN", "": "PLAIN"}
LIBRARIES = {"aiokafka", "confluent-kafka", "kafka-python", "pyspark"}
PIECE = re.compile(
    r"^(?P<fence>```+)(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=fence)[ ]*$"
    r"|^<!-- (?:given|then)\n(?P<unseen>.*?)^-->$"
    r"|^<!-- not run: (?P<reason>\S[^\n]*) -->$",
    re.MULTILINE | re.DOTALL,
)


class Kind(enum.Enum):
    """The content of a fence, which decides how it is run."""

    PROGRAM = "program"
    TESTS = "tests"
    FRAGMENT = "fragment"
    FOREIGN = "program for another library"
    COMMANDS = "commands"
    PLAIN = "no code"
    EXEMPT = "not run"
    UNKNOWN = "of no kind that is known"


@attrs.frozen
class Block:
    """A piece of code in a document; `library` is whose it is if it is not ours."""

    document: Path
    line: int
    kind: Kind
    source: str
    library: str = ""

    @property
    def place(self) -> str:
        """Where to look."""
        return f"{name_of(self.document)}:{self.line}"


def name_of(document: Path) -> str:
    """A document as a reader names it."""
    return str(document.relative_to(ROOT))


def kind_of(info: str, body: str) -> Kind:
    """The kind of a fence with this first line and this body."""
    language, _, library = info.partition(" ")
    if language == "python" and library:
        return Kind.FOREIGN if library in LIBRARIES else Kind.UNKNOWN
    if info == "python":
        return kind_of_python(body)
    return Kind[LANGUAGES.get(info, "UNKNOWN")]


def kind_of_python(body: str) -> Kind:
    """The program that runs this code."""
    if re.search(r"^(async )?def test_", body, re.MULTILINE):
        return Kind.TESTS
    return Kind.PROGRAM if "asyncio.run(" in body else Kind.FRAGMENT


def blocks(document: Path) -> list[Block]:
    """Every block of a document, the unseen ones too, in their order."""
    text = document.read_text()
    found = []
    exempt_from = -1
    for match in PIECE.finditer(text):
        if match["reason"]:
            exempt_from = match.end()
            continue
        block = _block(document, text, match)
        is_exempt = exempt_from >= 0 and not text[exempt_from : match.start()].strip()
        found.append(attrs.evolve(block, kind=Kind.EXEMPT) if is_exempt else block)
        exempt_from = -1
    return found


def _block(document: Path, text: str, match: re.Match[str]) -> Block:
    line = text.count("\n", 0, match.start()) + 1
    if match["unseen"] is not None:
        return Block(document, line, Kind.FRAGMENT, match["unseen"])
    info = match["info"].strip()
    return Block(document, line, kind_of(info, match["body"]), match["body"], info.partition(" ")[2])


def every(*kinds: Kind) -> list[Block]:
    """The blocks of these kinds in all documents."""
    return [block for document in DOCUMENTS for block in blocks(document) if block.kind in kinds]

"""The programs that docs/spark-clusters.md shows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.repo.documents.document_code import Kind, blocks
from tests.repo.source import ROOT

__all__ = ["ROWS", "program", "write_program"]

PAGE: Final = ROOT / "docs" / "spark-clusters.md"
# The number of rows that each of the first two writes.
ROWS: Final = 1_000


def program(number: int, options: dict[str, str], server: str = "") -> str:
    """One of the programs, unchanged but for the addresses of Kafka and Spark, and the topic."""
    source = [block.source for block in blocks(PAGE) if block.kind is Kind.FOREIGN][number]
    source = source.replace("localhost:9092", options["kafka.bootstrap.servers"])
    return source.replace('"orders"', f'"{options["topic"]}"').replace("sc://localhost:15002", server)


def write_program(number: int, file: Path, options: dict[str, str], server: str = "") -> Path:
    """The same in a file."""
    file.write_text(program(number, options, server))
    return file

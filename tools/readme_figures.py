"""Bring the figures of benchmarks/RESULTS.md into README.md: `make bench` does it after measuring.

The README shows the table as it was written, and the day; what lies between its two markers belongs to this program.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
_SHOWN = 2
_BETWEEN = """\
In production, records have keys, go to many partitions, and arrive at a pace. Then batches are small, and a batch costs
more than its records. Three brokers, 100-byte records with random keys, processor time of the client's process:"""
BEGIN, END = "<!-- figures of benchmarks/RESULTS.md -->\n", "<!-- end of figures -->\n"


def figures(results: str) -> str:
    """The day and the first two tables of the results: the flood, and the shapes of production."""
    day = re.search(r"\b\d{4}-\d{2}-\d{2}\b", results)
    tables = re.findall(r"^\|.*?(?=^(?!\|))", results, re.MULTILINE | re.DOTALL)
    if day is None or len(tables) < _SHOWN:
        raise SystemExit(f"{RESULTS.name} has no day, or fewer than {_SHOWN} tables")
    flood, shapes = tables[:_SHOWN]
    return f"Measured on {day[0]}:\n\n{flood}\n{_BETWEEN}\n\n{shapes}"


def shown(readme: str) -> str:
    """The text of the README between the markers."""
    return readme.partition(BEGIN)[2].partition(END)[0]


def with_figures(readme: str, results: str) -> str:
    """The README with the figures in their place."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{README.name} has no place for the figures")
    return before + begin + figures(results) + end + after


if __name__ == "__main__":
    README.write_text(with_figures(README.read_text(), RESULTS.read_text()))

"""The picture of docs/spark-scale.md, drawn from the tables of that page.

python -m tests.spark.scale.picture
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Final

import attrs

from tests.repo.source import ROOT

__all__ = ["PICTURE", "picture"]

PAGE: Final = ROOT / "docs" / "spark-scale.md"
PICTURE: Final = ROOT / "docs" / "spark-scale.svg"
# The headings of the tables, and the columns of their seconds.
SIMULATED: Final = ("| tasks | brokers | commit, s |", {"commit, simulated": 2, "abort, simulated": 5})
MEASURED: Final = ("| tasks | commit before, s |", {"commit before": 1, "commit": 2, "abort": 5})
BROKERS: Final = "3"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 420, 70, 690, 90, 370
TASKS: Final = (10, 10_000)
SECONDS: Final = (0.01, 100)
STYLE: Final = """\
  <style>
    text { font: 14px system-ui, sans-serif; fill: #24292f }
    .title { font-weight: 600 }
    .note { font-size: 12px; fill: #57606a }
    .commit { stroke: #0969da; fill: #0969da }
    .abort { stroke: #8250df; fill: #8250df }
    .before { stroke: #8c959f; fill: #8c959f }
    .simulated { stroke-dasharray: 4 4 }
    polyline { fill: none !important; stroke-width: 2 }
    .axis { stroke: #d0d7de }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .note { fill: #9198a1 }
      .commit { stroke: #4493f8; fill: #4493f8 }
      .abort { stroke: #ab7df8; fill: #ab7df8 }
      .before { stroke: #6e7681; fill: #6e7681 }
      .axis { stroke: #30363d }
    }
  </style>"""


@attrs.frozen
class Line:
    """The seconds of one kind of work, by the number of tasks."""

    title: str
    points: tuple[tuple[int, float], ...]

    @property
    def kind(self) -> str:
        """The classes of its style."""
        work = "abort" if "abort" in self.title else "before" if "before" in self.title else "commit"
        return f"{work} simulated" if "simulated" in self.title else work


def lines_of(page: str) -> list[Line]:
    """The lines of both tables."""
    return [
        Line(title, tuple((tasks, _number(row[column])) for tasks, row in rows if _is_number(row[column])))
        for heading, columns in (SIMULATED, MEASURED)
        for rows in [_rows(page, heading)]
        for title, column in columns.items()
    ]


def _rows(page: str, heading: str) -> list[tuple[int, list[str]]]:
    begin = page.index(heading)
    table = page[begin : page.index("\n\n", begin)].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    of_few = heading == SIMULATED[0]
    return [(int(row[0].replace(",", "")), row) for row in rows if not of_few or row[1] == BROKERS]


def _is_number(cell: str) -> bool:
    return re.match(r"[\d.]", cell) is not None


def _number(cell: str) -> float:
    return float(cell.split(maxsplit=1)[0].replace(",", ""))


def picture(page: str) -> str:
    """The SVG."""
    lines = lines_of(page)
    said = "; ".join(
        f"{line.title}: " + ", ".join(f"{tasks:,} tasks {seconds:g} s" for tasks, seconds in line.points)
        for line in lines
    )
    parts = [*_axes(), *(part for at, line in enumerate(lines) for part in _drawn(at, line))]
    drawn = "\n".join(parts)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="title desc">
  <title id="title">Seconds of the driver at the end of a job</title>
  <desc id="desc">{said}</desc>
{STYLE}
  <text class="title" x="8" y="24">Seconds of the driver at the end of a job, by the number of tasks</text>
{drawn}
  <text class="note" x="8" y="{HEIGHT - 10}">dashed: three brokers in virtual time, round trips of 2 ms; solid: one real node; both axes are logarithmic</text>
</svg>
"""


def _x(tasks: float) -> float:
    first, last = map(math.log10, TASKS)
    return LEFT + (RIGHT - LEFT) * (math.log10(tasks) - first) / (last - first)


def _y(seconds: float) -> float:
    first, last = map(math.log10, SECONDS)
    return BOTTOM - (BOTTOM - TOP) * (math.log10(seconds) - first) / (last - first)


def _axes() -> list[str]:
    powers = range(round(math.log10(SECONDS[0])), round(math.log10(SECONDS[1])) + 1)
    across = [
        f'  <line class="axis" x1="{LEFT}" y1="{_y(10.0**power):.1f}" x2="{RIGHT}" y2="{_y(10.0**power):.1f}"/>'
        f'<text class="note" x="{LEFT - 8}" y="{_y(10.0**power) + 4:.1f}" text-anchor="end">{10.0**power:g} s</text>'
        for power in powers
    ]
    below = [
        f'  <text class="note" x="{_x(10**power):.1f}" y="{BOTTOM + 18}" text-anchor="middle">{10**power:,}</text>'
        for power in range(1, 5)
    ]
    return across + below


def _drawn(at: int, line: Line) -> list[str]:
    places = [(_x(tasks), _y(seconds)) for tasks, seconds in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    left = 8 + at * 142
    return [
        f'  <polyline class="{line.kind}" points="{path}"/>',
        *(f'  <circle class="{line.kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places),
        f'  <polyline class="{line.kind}" points="{left},50 {left + 20},50"/>',
        f'  <text class="note" x="{left + 26}" y="54">{line.title}</text>',
    ]


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(picture(Path(PAGE).read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

"""The results as pictures, readable on dark and on light ground: rates as bars, processor time by shape as dots."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from benchmarks.goals import Row, Rows
from benchmarks.workloads import CONFLUENT, LIMIT, ON_THREE_BROKERS, OURS, PRODUCTION

PICTURE: Final = Path(__file__).parent / "comparison.svg"
SHAPES_PICTURE: Final = Path(__file__).parent / "shapes.svg"
_WIDTH, _LEFT, _LINE, _TOP = 720, 150, 34, 44
_BAR = _WIDTH - _LEFT - 170
# The second picture: begin and end of its axis, height of a shape, middle of the first one.
_BEGIN, _END, _ROW, _SHAPES_TOP = 270, 690, 46, 86
# Colours for either ground; a viewer without media queries shows the first.
_STYLE = """\
  <style>
    text { font: 14px system-ui, sans-serif; fill: #24292f }
    .title { font-weight: 600 }
    .note { font-size: 12px; fill: #57606a }
    .ours { fill: #0969da }
    .other { fill: #8c959f }
    .second { fill: #57606a }
    .axis { stroke: #d0d7de }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .note { fill: #9198a1 }
      .ours { fill: #4493f8 }
      .other { fill: #6e7681 }
      .second { fill: #9198a1 }
      .axis { stroke: #30363d }
    }
  </style>"""


def picture(rows: Mapping[str, Row]) -> str:
    """The SVG, without the limit: it is no client, and would make the other bars short."""
    shown = {name: row for name, row in rows.items() if name != LIMIT}
    fastest = max(row.rate for row in shown.values())
    height = _TOP + _LINE * len(shown) + 30
    bars = "\n".join(_bar(at, name, row, fastest) for at, (name, row) in enumerate(shown.items()))
    said = ", ".join(f"{name} {row.rate:,.0f}" for name, row in shown.items())
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="title desc">
  <title id="title">Records a second, 100 bytes each</title>
  <desc id="desc">{said}</desc>
{_STYLE}
  <text class="title" x="8" y="24">Records a second: 100 bytes, one by one, every delivery checked</text>
{bars}
  <text class="note" x="8" y="{height - 10}">acks=all, idempotent, one real Kafka on the same machine; CPU per record of the client's process</text>
</svg>
"""


def _bar(at: int, name: str, row: Row, fastest: float) -> str:
    top = _TOP + at * _LINE
    width = max(2.0, _BAR * row.rate / fastest)
    kind = "ours" if name == OURS else "other"
    return f"""\
  <text x="{_LEFT - 10}" y="{top + 17}" text-anchor="end">{name}</text>
  <rect class="{kind}" x="{_LEFT}" y="{top}" width="{width:.1f}" height="24" rx="3"/>
  <text x="{_LEFT + width + 8:.1f}" y="{top + 17}">{_short(row.rate)} <tspan class="note">{row.cpu_micros:.1f} us CPU</tspan></text>"""


def _short(rate: float) -> str:
    return f"{rate / 1e6:.2f} M/s" if rate >= 1e6 else f"{rate / 1e3:.0f} k/s"


def shapes_picture(measured: Mapping[str, Rows]) -> str:
    """The SVG of the shapes of production: a line for each shape, a dot for each client, on a logarithmic axis."""
    shapes = sorted(
        ((shape.title.removesuffix(ON_THREE_BROKERS), measured[shape.name]) for shape in PRODUCTION),
        key=lambda shape: shape[1][OURS].figures["per_batch"],
    )
    most = max(row.cpu_micros for _, rows in shapes for row in rows.values())
    powers = range(math.ceil(math.log10(most)) + 1)
    height = _SHAPES_TOP + _ROW * len(shapes) + 30
    said = "; ".join(
        f"{title}: " + ", ".join(f"{name} {row.cpu_micros:.1f} us" for name, row in rows.items())
        for title, rows in shapes
    )
    axis = "\n".join(_tick(power, powers[-1], height) for power in powers)
    lines = "\n".join(
        line for at, (title, rows) in enumerate(shapes) for line in _shape(at, title, rows, powers[-1])
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="title desc">
  <title id="title">Processor time for a record, by the shape of the load</title>
  <desc id="desc">{said}</desc>
{_STYLE}
  <text class="title" x="8" y="24">Processor time for a record in shapes of production: less is better</text>
{_legend(shapes[0][1])}
{axis}
{lines}
  <text class="note" x="8" y="{height - 10}">100 bytes, random keys, three brokers; axis: us of the client's process for a record, logarithmic</text>
</svg>
"""


def _along(micros: float, last: int) -> float:
    return _BEGIN + (_END - _BEGIN) * max(0.0, math.log10(micros)) / last


def _tick(power: int, last: int, height: int) -> str:
    x = _along(10**power, last)
    return f"""\
  <line class="axis" x1="{x:.1f}" y1="{_SHAPES_TOP - 20}" x2="{x:.1f}" y2="{height - 46}"/>
  <text class="note" x="{x:.1f}" y="{height - 30}" text-anchor="middle">{10**power:,}</text>"""


def _legend(rows: Rows) -> str:
    return "\n".join(
        f'  <circle class="{_kind(name)}" cx="{_BEGIN + 6 + at * 150}" cy="{_TOP}" r="6"/>'
        f'<text class="note" x="{_BEGIN + 18 + at * 150}" y="{_TOP + 4}">{name}</text>'
        for at, name in enumerate(rows)
    )


def _kind(name: str) -> str:
    return {OURS: "ours", CONFLUENT: "second"}.get(name, "other")


def _shape(at: int, title: str, rows: Rows, last: int) -> Iterator[str]:
    middle = _SHAPES_TOP + at * _ROW
    name, _, pace = title.replace(" records a second", " records/s").partition(", ")
    load = f"{pace}, {rows[OURS].figures['per_batch']:.1f} records a batch"
    yield f'  <text x="{_BEGIN - 20}" y="{middle}" text-anchor="end">{name}</text>'
    yield f'  <text class="note" x="{_BEGIN - 20}" y="{middle + 16}" text-anchor="end">{load}</text>'
    yield f'  <line class="axis" x1="{_BEGIN}" y1="{middle}" x2="{_END}" y2="{middle}"/>'
    for client, row in rows.items():
        # Two clients may be level: one figure stands above the line, the others below.
        x, below = _along(row.cpu_micros, last), -10 if client == OURS else 20
        yield f'  <circle class="{_kind(client)}" cx="{x:.1f}" cy="{middle}" r="6"/>'
        yield f'  <text class="note" x="{x:.1f}" y="{middle + below}" text-anchor="middle">{row.cpu_micros:.1f}</text>'

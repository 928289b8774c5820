"""The comparison as a picture: bars of the first workload, readable on dark and on light ground."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.goals import Row
from benchmarks.workloads import LIMIT, OURS

PICTURE: Final = Path(__file__).parent / "comparison.svg"
_WIDTH, _LEFT, _LINE, _TOP = 720, 150, 34, 44
_BAR = _WIDTH - _LEFT - 170
# Colours for either ground; a viewer without media queries shows the first.
_STYLE = """\
  <style>
    text { font: 14px system-ui, sans-serif; fill: #24292f }
    .title { font-weight: 600 }
    .note { font-size: 12px; fill: #57606a }
    .ours { fill: #0969da }
    .other { fill: #8c959f }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .note { fill: #9198a1 }
      .ours { fill: #4493f8 }
      .other { fill: #6e7681 }
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

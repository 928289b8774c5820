"""A picture of what was read: how fast it was written, how it is spread over partitions, and where something is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from aioproducer.spark.auditing.onepass import Piece
from aioproducer.spark.auditing.verdict import KINDS

if TYPE_CHECKING:
    from aioproducer.spark.auditing.verdict import Verdict

__all__ = ["draw"]

BLUE: Final = "#3b6fb6"
COLOURS: Final = dict(
    zip((*KINDS, "out of order"), ("#8a5a00", "#c2452d", "#7b3fa0", "#2a8a57"), strict=True)
)


def draw(path: Path, verdict: Verdict, pieces: Sequence[Piece]) -> None:
    """Into a PNG or SVG, as the name of the file says; needs no display."""
    figure = Figure(figsize=(9, 9), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(
        f"{', '.join(verdict.topics)}, {verdict.isolation}: {'clean' if verdict.is_clean else 'NOT CLEAN'}"
    )
    above, middle, below = figure.subplots(3, 1, height_ratios=(2, 2, 1))
    _draw_rates(above, pieces)
    _draw_balance(middle, pieces)
    _draw_places(below, pieces)
    figure.savefig(path, dpi=120)


def _draw_rates(axes: Any, pieces: Sequence[Piece]) -> None:
    for place in _places(pieces):
        line = sorted((one for one in pieces if _place(one) == place), key=lambda one: one.first_offset)
        middles = [one.first_offset + one.records / 2 for one in line]
        rates = [one.records / max((one.last_ms - one.first_ms) / 1000, 0.001) for one in line]
        axes.plot(middles, rates, marker="o", markersize=3, label=place)
    axes.set_xlabel("offset")
    axes.set_ylabel("records/s, by timestamps")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _draw_balance(axes: Any, pieces: Sequence[Piece]) -> None:
    records: Counter[str] = Counter()
    for one in pieces:
        records[_place(one)] += one.records
    axes.bar(list(records), list(records.values()), color=BLUE)
    axes.set_ylabel("records")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(axis="x", rotation=45)


def _draw_places(axes: Any, pieces: Sequence[Piece]) -> None:
    places = _places(pieces)
    axes.set_yticks(range(len(places)), places)
    axes.set_ylim(-0.5, len(places) - 0.5)
    for kind, colour in COLOURS.items():
        dots = [(offset, places.index(_place(one))) for one in pieces for offset in _examples(one, kind)]
        if dots:
            axes.scatter(*zip(*dots, strict=True), color=colour, label=kind, zorder=3)
            axes.legend(loc="upper right")
    axes.set_xlim(0, max((one.first_offset + one.records for one in pieces), default=1))
    axes.set_xlabel("offset: the first of what is wrong in each split")
    axes.grid(alpha=0.3)


def _examples(piece: Piece, kind: str) -> list[int]:
    if kind in KINDS:
        found: list[int] = getattr(piece, kind)
        return found
    return [offset for seen in piece.sources.values() for offset in seen.examples]


def _places(pieces: Sequence[Piece]) -> list[str]:
    return sorted({_place(one) for one in pieces})


def _place(piece: Piece) -> str:
    return f"{piece.topic}-{piece.partition}"

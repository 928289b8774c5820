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

COLOURS: Final = dict(
    zip((*KINDS, "out of order"), ("#8a5a00", "#c2452d", "#7b3fa0", "#2a8a57"), strict=True)
)
# More partitions than this are not told apart by colour, and their names are turned.
MOST_COLOURS: Final = 10
THOUSANDS: Final = "{x:,.0f}"


def draw(path: Path, verdict: Verdict, pieces: Sequence[Piece]) -> None:
    """Into a PNG or SVG, as the name of the file says; needs no display."""
    figure = Figure(figsize=(9, 9), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_title(verdict))
    rates, balance, places = figure.subplots(3, 1, height_ratios=(2, 2, 1))
    last = max((one.first_offset + one.records for one in pieces), default=1)
    _draw_rates(rates, pieces)
    _draw_balance(balance, pieces)
    _draw_places(places, pieces)
    for axes in (rates, places):
        axes.set_xlim(0, last)
        axes.set_xlabel("offset")
        axes.xaxis.set_major_formatter(THOUSANDS)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def _title(verdict: Verdict) -> str:
    wrong = {"lost": verdict.lost, "doubled": verdict.doubled, "out of order": verdict.out_of_order}
    return (
        f"{', '.join(verdict.topics)}, {verdict.isolation}: {'clean' if verdict.is_clean else 'NOT CLEAN'}\n"
        f"{verdict.records:,} records of {verdict.sources:,} sources; "
        + ", ".join(f"{what} {count:,}" for what, count in wrong.items())
    )


def _draw_rates(axes: Any, pieces: Sequence[Piece]) -> None:
    places = _places(pieces)
    for at, place in enumerate(places):
        line = sorted((one for one in pieces if _place(one) == place), key=lambda one: one.first_offset)
        middles = [one.first_offset + one.records / 2 for one in line]
        rates = [one.records / max((one.last_ms - one.first_ms) / 1000, 0.001) for one in line]
        axes.plot(middles, rates, marker="o", markersize=3, label=place, color=_colour(at), alpha=0.8)
    axes.set_title("How fast it was written, by timestamps", loc="left", fontsize="medium")
    axes.set_ylabel("records/s")
    axes.yaxis.set_major_formatter(THOUSANDS)
    axes.set_ylim(bottom=0)
    if 1 < len(places) <= MOST_COLOURS:
        axes.legend(loc="lower left", ncols=len(places), fontsize="small")


def _draw_balance(axes: Any, pieces: Sequence[Piece]) -> None:
    records: Counter[str] = Counter(dict.fromkeys(_places(pieces), 0))
    for one in pieces:
        records[_place(one)] += one.records
    axes.bar(list(records), list(records.values()), color=[_colour(at) for at in range(len(records))])
    axes.set_title("Records of each partition", loc="left", fontsize="medium")
    axes.yaxis.set_major_formatter(THOUSANDS)
    axes.tick_params(axis="x", rotation=45 if len(records) > MOST_COLOURS else 0)


def _draw_places(axes: Any, pieces: Sequence[Piece]) -> None:
    places = _places(pieces)
    axes.set_yticks(range(len(places)), places)
    axes.set_ylim(-0.5, len(places) - 0.5)
    found = False
    for kind, colour in COLOURS.items():
        dots = [(offset, places.index(_place(one))) for one in pieces for offset in _examples(one, kind)]
        if dots:
            found = True
            axes.scatter(*zip(*dots, strict=True), color=colour, label=kind, zorder=3)
            axes.legend(loc="upper right")
    where = "the first of each kind in each split" if found else "at no offset"
    axes.set_title(f"Where something is wrong: {where}", loc="left", fontsize="medium")


def _colour(at: int) -> str:
    return f"C{at % MOST_COLOURS}"


def _examples(piece: Piece, kind: str) -> list[int]:
    if kind in KINDS:
        found: list[int] = getattr(piece, kind)
        return found
    return [offset for seen in piece.sources.values() for offset in seen.examples]


def _places(pieces: Sequence[Piece]) -> list[str]:
    return sorted({_place(one) for one in pieces})


def _place(piece: Piece) -> str:
    return f"{piece.topic}-{piece.partition}"

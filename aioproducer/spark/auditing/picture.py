"""A picture of the audit: write rate, distribution over partitions, faults and their places."""

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
    from aioproducer.spark.auditing.verdict import Damage, Verdict

__all__ = ["draw", "drawn"]

COLOURS: Final = dict(
    zip((*KINDS, "out of order"), ("#8a5a00", "#c2452d", "#7b3fa0", "#2a8a57"), strict=True)
)
# Above this number, partitions have no colours of their own, and their names are rotated.
MOST_COLOURS: Final = 10
# The number of faulty sources in the picture.
MOST_SOURCES: Final = 20
# The height of the names of all partitions together, in points.
POINTS_OF_ALL_NAMES: Final = 90.0
# A shorter time gives no meaningful rate.
SECONDS_OF_A_RATE: Final = 1.0
NOTHING_WRONG: Final = "nothing wrong"
THOUSANDS: Final = "{x:,.0f}"


def draw(path: Path, verdict: Verdict, pieces: Sequence[Piece]) -> None:
    """Draw into a PNG or SVG, by the suffix of the file; needs no display."""
    drawn(verdict, pieces).savefig(path, dpi=120)


def drawn(verdict: Verdict, pieces: Sequence[Piece]) -> Figure:
    """The picture."""
    figure = Figure(figsize=(9, 11), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_title(verdict), color="black" if verdict.is_clean else "#c2452d")
    rates, balance, damages, places = figure.subplots(4, 1, height_ratios=(3, 3, 2, 2))
    last = max((one.first_offset + one.records for one in pieces), default=1)
    names = _places(verdict, pieces)
    _draw_rates(rates, pieces, names)
    _draw_balance(balance, pieces, names)
    _draw_damages(damages, verdict)
    _draw_places(places, pieces, names)
    for axes in (rates, places):
        axes.set_xlim(0, last)
        axes.set_xlabel("offset")
        axes.xaxis.set_major_formatter(THOUSANDS)
        axes.grid(alpha=0.3)
    return figure


def _title(verdict: Verdict) -> str:
    wrong = {"lost": verdict.lost, "doubled": verdict.doubled, "out of order": verdict.out_of_order}
    return (
        f"{', '.join(verdict.topics)}, {verdict.isolation}: {NOTHING_WRONG if verdict.is_clean else 'NOT CLEAN'}\n"
        f"{verdict.records:,} records of {verdict.sources:,} sources; "
        + ", ".join(f"{what} {count:,}" for what, count in wrong.items())
    )


def _draw_rates(axes: Any, pieces: Sequence[Piece], names: Sequence[str]) -> None:
    axes.set_title("How fast it was written, by timestamps", loc="left", fontsize="medium")
    axes.set_ylabel("records/s")
    axes.yaxis.set_major_formatter(THOUSANDS)
    seconds = _seconds(pieces)
    if seconds < SECONDS_OF_A_RATE:
        records = sum(one.records for one in pieces)
        axes.set_yticks([])
        _say(
            axes,
            f"{records:,} records within {seconds:.3f} s: too few for a rate" if records else "no records",
        )
        return
    for at, name in enumerate(names):
        line = sorted((one for one in pieces if _place(one) == name), key=lambda one: one.first_offset)
        if not line:
            continue
        # Each split from its first offset to its last: a single split is a line as well.
        ends = [(one.first_offset, one.first_offset + one.records) for one in line]
        rates = [one.records / max((one.last_ms - one.first_ms) / 1000, 0.001) for one in line]
        axes.plot(
            [offset for pair in ends for offset in pair],
            [rate for rate in rates for _ in range(2)],
            marker="o", markersize=3, label=name, color=_colour(at), alpha=0.8,
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    if 1 < len(names) <= MOST_COLOURS:
        axes.legend(loc="best", ncols=len(names), fontsize="small")


def _seconds(pieces: Sequence[Piece]) -> float:
    """The time between the first and the last record of all."""
    first = min((one.first_ms for one in pieces), default=0)
    return (max((one.last_ms for one in pieces), default=0) - first) / 1000


def _draw_balance(axes: Any, pieces: Sequence[Piece], names: Sequence[str]) -> None:
    records: Counter[str] = Counter(dict.fromkeys(names, 0))
    for one in pieces:
        records[_place(one)] += one.records
    bars = axes.bar(list(records), list(records.values()), color=[_colour(at) for at in range(len(records))])
    if len(records) <= MOST_COLOURS:
        axes.bar_label(
            bars, [f"{count:,}" if count else "none" for count in records.values()], fontsize="small"
        )
    empty = sum(count == 0 for count in records.values())
    axes.set_title(
        "Records of each partition" + (f": {empty} of {len(records)} have none" if empty else ""),
        loc="left", fontsize="medium",
    )  # fmt: skip
    axes.margins(y=0.15)
    axes.yaxis.set_major_formatter(THOUSANDS)
    axes.tick_params(axis="x", rotation=45 if len(records) > MOST_COLOURS else 0)


def _draw_damages(axes: Any, verdict: Verdict) -> None:
    shown = verdict.damages[:MOST_SOURCES]
    hidden = len(verdict.damages) - len(shown)
    axes.set_title(
        f"Lost {verdict.lost:,} and doubled {verdict.doubled:,}, by source and sequence"
        + (f" ({hidden} more sources are not shown)" if hidden else ""),
        loc="left", fontsize="medium",
    )  # fmt: skip
    if not shown:
        axes.set_xticks([])
        axes.set_yticks([])
        _say(axes, NOTHING_WRONG)
        return
    axes.set_yticks(range(len(shown)), [_of_damage(one) for one in shown], fontsize="small")
    axes.set_ylim(-0.5, len(shown) - 0.5)
    axes.hlines(range(len(shown)), 0, [max(one.expected - 1, 0) for one in shown], color="#cccccc", zorder=1)
    for kind, colour, marker in (("lost", "#c2452d", "x"), ("doubled", "#7b3fa0", "o")):
        dots = [(at, row) for row, one in enumerate(shown) for at in getattr(one, f"{kind}_examples")]
        if dots:
            axes.scatter(
                *zip(*dots, strict=True), color=colour, marker=marker, label=f"{kind}, the first", zorder=3
            )
            axes.legend(loc="upper right", fontsize="small")
    axes.set_xlabel("sequence")
    axes.xaxis.set_major_formatter(THOUSANDS)


def _of_damage(damage: Damage) -> str:
    counts = (("lost", damage.lost), ("doubled", damage.doubled))
    return f"{damage.source[:20]}: " + ", ".join(f"{count:,} {what}" for what, count in counts if count)


def _draw_places(axes: Any, pieces: Sequence[Piece], names: Sequence[str]) -> None:
    # Lines of this size do not overlap in the height of the axes.
    axes.set_yticks(range(len(names)), names, fontsize=min(10.0, POINTS_OF_ALL_NAMES / max(len(names), 1)))
    axes.set_ylim(-0.5, max(len(names), 1) - 0.5)
    found = False
    for kind, colour in COLOURS.items():
        dots = [(offset, names.index(_place(one))) for one in pieces for offset in _examples(one, kind)]
        if dots:
            found = True
            axes.scatter(*zip(*dots, strict=True), color=colour, label=kind, zorder=3)
            axes.legend(loc="upper right", fontsize="small")
    axes.set_title(
        f"At which offsets: {', '.join(COLOURS)}" + (" (the first in each split)" if found else ""),
        loc="left", fontsize="medium",
    )  # fmt: skip
    if not found:
        _say(axes, NOTHING_WRONG)


def _say(axes: Any, text: str) -> None:
    """A text in place of an empty diagram."""
    axes.text(
        0.5,
        0.5,
        text,
        transform=axes.transAxes,
        ha="center",
        va="center",
        fontsize="x-large",
        color="#555555",
    )


def _colour(at: int) -> str:
    return f"C{at % MOST_COLOURS}"


def _examples(piece: Piece, kind: str) -> list[int]:
    if kind in KINDS:
        found: list[int] = getattr(piece, kind)
        return found
    return [offset for seen in piece.sources.values() for offset in seen.examples]


def _places(verdict: Verdict, pieces: Sequence[Piece]) -> list[str]:
    """All partitions of the topics, also those without records."""
    known = {(topic, at) for topic, count in verdict.partitions.items() for at in range(count)}
    return [f"{topic}-{at}" for topic, at in sorted(known | {(one.topic, one.partition) for one in pieces})]


def _place(piece: Piece) -> str:
    return f"{piece.topic}-{piece.partition}"

"""A plot of throughput and latency over time."""

from __future__ import annotations

from pathlib import Path

import attrs
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from aioproducer.cli.latencies import quantile
from aioproducer.cli.perf.figures import Latencies

POINTS = 60
BLUE, GREEN, RED = "#3b6fb6", "#2a8a57", "#c2452d"


@attrs.frozen
class Slice:
    """A slice of the run: its middle in seconds since the beginning, and the acknowledged records."""

    middle: float
    rate: float
    p50_ms: float | None
    p99_ms: float | None


def slices(latencies: Latencies, began: float, ended: float, points: int = POINTS) -> list[Slice]:
    """The run in equal slices; each sample also counts for the records that were not timed."""
    width = max(ended - began, 1e-9) / points
    found: list[list[float]] = [[] for _ in range(points)]
    for seconds, at in zip(latencies.seconds, latencies.at, strict=True):
        found[min(max(int((at - began) / width), 0), points - 1)].append(seconds)
    return [
        _slice((index + 0.5) * width, len(each) * latencies.every / width, sorted(each))
        for index, each in enumerate(found)
    ]


def _slice(middle: float, rate: float, ordered: list[float]) -> Slice:
    if not ordered:
        return Slice(middle, rate, None, None)
    return Slice(middle, rate, quantile(ordered, 0.5) * 1000, quantile(ordered, 0.99) * 1000)


def write_plot(path: Path, title: str, parts: list[Slice]) -> None:
    """Draw it as PNG or SVG, according to the extension; needs no display."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    above, below = figure.subplots(2, 1, sharex=True)
    seconds = [part.middle for part in parts]
    above.fill_between(seconds, [part.rate for part in parts], color=BLUE, alpha=0.25, linewidth=0)
    above.plot(seconds, [part.rate for part in parts], color=BLUE)
    above.set_ylabel("records/s")
    above.yaxis.set_major_formatter("{x:,.0f}")
    measured = [part for part in parts if part.p50_ms is not None]
    seconds = [part.middle for part in measured]
    below.plot(seconds, [part.p99_ms for part in measured], color=RED, label="p99")
    below.plot(seconds, [part.p50_ms for part in measured], color=GREEN, label="p50")
    below.set_ylabel("latency, ms")
    below.set_xlabel("seconds")
    below.legend(loc="upper right")
    for axes in (above, below):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)

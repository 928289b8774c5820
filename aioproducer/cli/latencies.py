"""Latencies as percentiles and as a histogram."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

FINE = (1, 1.25, 1.6, 2, 2.5, 3.2, 4, 5, 6.4, 8)
COARSE = (1, 2, 5)
LINES = 14
EIGHTHS = " ▏▎▍▌▋▊▉█"
BAR = 30


def quantile(ordered: Sequence[float], fraction: float) -> float:
    """The percentile as Kafka's tool selects it; 0 without values."""
    if not ordered:
        return 0.0
    return ordered[min(int(fraction * len(ordered)), len(ordered) - 1)]


def histogram(seconds: Sequence[float], bar: int = BAR, *, blocks: bool = True) -> Table:
    """A line for each range of latencies, with its share drawn as a bar."""
    fine = _counts(seconds, FINE)
    counts = fine if len(fine) <= LINES else _counts(seconds, COARSE)
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for bound, count in counts:
        length = count / max(count for _, count in counts) * bar
        drawn = _blocks(length) if blocks else "#" * round(length)
        table.add_row(f"up to {bound:,g} ms", f"{count / len(seconds):.1%}", Text(drawn, style="cyan"))
    return table


def _counts(seconds: Sequence[float], steps: Sequence[float]) -> list[tuple[float, int]]:
    """The count up to each bound in milliseconds, from the first to the last bound with a value."""
    bounds = [step * 10.0**power for power in range(-2, 8) for step in steps]
    counts = [0] * (len(bounds) + 1)
    for each in seconds:
        counts[bisect_left(bounds, each * 1000)] += 1
    filled = [index for index, count in enumerate(counts) if count]
    return list(zip(bounds, counts, strict=False))[filled[0] : filled[-1] + 1] if filled else []


def _blocks(length: float) -> str:
    # Every non-zero count is visible, at least as a thin bar.
    whole, part = divmod(max(round(length * 8), 1 if length else 0), 8)
    return ("█" * whole + EIGHTHS[part]).rstrip()

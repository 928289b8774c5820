"""The lines that were not acknowledged, with the reasons: adjacent lines with the same reason share a message."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

RANGES = 10


class Failures:
    """Collects failures until they are printed."""

    def __init__(self) -> None:
        self.count = 0
        self._unreadable: list[str] = []
        self._untold: dict[tuple[str, str], list[int]] = defaultdict(list)

    def add(self, source: str, line: int, reason: str) -> None:
        """Add a line that was not acknowledged."""
        self.count += 1
        self._untold[source, reason].append(line)

    def unreadable(self, source: str, error: OSError) -> None:
        """Add a source that could not be read to its end."""
        self.count += 1
        self._unreadable.append(f"{source}: {error.strerror or error}")

    def told(self) -> list[str]:
        """The messages about the failures since the last call."""
        untold, self._untold = self._untold, defaultdict(list)
        complaints, self._unreadable = self._unreadable, []
        for (source, reason), lines in untold.items():
            ranges = _ranges(sorted(lines))
            for start in range(0, len(ranges), RANGES):
                complaints.append(f"{source}:{','.join(ranges[start : start + RANGES])}: {reason}")
        return complaints


def _ranges(lines: Iterable[int]) -> list[str]:
    """1, 2, 3, 7 as "1-3" and "7"."""
    runs: list[list[int]] = []
    for line in lines:
        if runs and line == runs[-1][1] + 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return [f"{first}" if first == last else f"{first}-{last}" for first, last in runs]

"""The pause before the next attempt, which grows with each failure."""

from __future__ import annotations

__all__ = ["Backoff"]


class Backoff:
    """The pause before the next attempt: it doubles with each failure, and begins anew with a success."""

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0

    def next(self) -> float:
        """The length of the pause after another failure, in seconds."""
        pause = self._first * 2.0 ** min(self._failures, 32)
        self._failures += 1
        return min(pause, self._longest)

    def reset(self) -> None:
        """An attempt had success."""
        self._failures = 0

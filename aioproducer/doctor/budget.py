"""The time of an examination: every phase has an end, and every wait in it a limit."""

from __future__ import annotations

import asyncio
from typing import Final

import anyio
import attrs

__all__ = ["Budget", "Phase"]

# In time limits, from the beginning: 6 of them are promised, and the program needs a moment to end.
_ENDS: Final = {"config": 0.5, "bootstrap": 2.5, "cluster": 3.0, "brokers": 4.5, "topics": 5.0, "probe": 5.8}


@attrs.frozen
class Phase:
    """A part of the examination, which ends at this time of the loop at the latest."""

    timeout: float
    end: float

    def limit(self) -> float:
        """The limit of one wait: the time limit of the user, or the rest of the phase."""
        return max(0.0, min(self.timeout, self.end - asyncio.get_running_loop().time()))

    def scope(self) -> anyio.CancelScope:
        """A scope that ends with the phase."""
        return anyio.CancelScope(deadline=self.end)


@attrs.frozen
class Budget:
    """All phases, from the beginning of an examination."""

    timeout: float
    began: float

    @property
    def last(self) -> float:
        """The time at which everything is over."""
        return self.phase("probe").end

    def phase(self, name: str) -> Phase:
        """The phase of this name."""
        return Phase(self.timeout, self.began + _ENDS[name] * self.timeout)

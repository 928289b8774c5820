"""The time at which the tickets of a key table are renewed: after half of their life, while they are still used."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["TicketRenewal"]

# Seconds between two requests for other tickets.
_PAUSE: Final = 30.0


class TicketRenewal:
    """Decides by the seconds that the tickets last, at each of their uses."""

    def __init__(self) -> None:
        self._whole = 0.0
        self._not_before = -math.inf

    def is_due(self, left: float, now: float) -> bool:
        """Whether other tickets are requested now, because those that are used last for `left` seconds."""
        # More than before: these are other tickets.
        self._whole = max(self._whole, left)
        if left > self._whole / 2 or left == math.inf or now < self._not_before:
            return False
        self._not_before = now + _PAUSE
        return True

    def renewed(self) -> None:
        """Other tickets are used from now on."""
        self._whole = 0.0

"""Numbers of 32 bits, which encoders make of larger ones by rounding them to infinity."""

from __future__ import annotations

import math
from typing import Any, Final

__all__ = ["is_rounded_to_infinity"]

# The first number that 32 bits round to infinity.
_TOO_LARGE: Final = 3.4028235677973366e38


def is_rounded_to_infinity(data: Any) -> bool:
    """Whether a float of 32 bits has infinity for this number, which is finite."""
    number = float(data)
    return abs(number) >= _TOO_LARGE and not (math.isinf(number) and data == number)

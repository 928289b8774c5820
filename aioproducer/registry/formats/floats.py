"""Numbers in floats of 32 and 64 bits: encoders round larger ones to infinity, and read numbers out of texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

__all__ = ["is_rounded_to_infinity", "is_text"]

# The first number that becomes infinity, by the bits.
_TOO_LARGE: Final[Mapping[int, float]] = MappingProxyType({32: 3.4028235677973366e38, 64: math.inf})


def is_rounded_to_infinity(data: Any, bits: int) -> bool:
    """Whether a float of these bits has infinity for this number, which is finite. False for an object that is none."""
    try:
        number = float(data)
    except OverflowError:
        return True
    except (TypeError, ValueError):
        return False
    return abs(number) >= _TOO_LARGE[bits] and not (math.isinf(number) and data == number)


def is_text(data: Any) -> bool:
    """Whether a number would be read out of a text or bytes: no number has items."""
    return not isinstance(data, float) and isinstance(data, Sequence)

"""Numbers in floats of 32 and 64 bits: encoders round larger ones to infinity, and read numbers out of texts."""

from __future__ import annotations

import decimal
import fractions
import math
import numbers
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from aioproducer.registry.formats.by_class import ByClass
from aioproducer.serializers import is_outside

__all__ = ["is_decimal_of_double", "is_never_infinite", "is_rounded_to_infinity", "is_text"]

# The first number that becomes infinity, by the bits.
_TOO_LARGE: Final[Mapping[int, float]] = MappingProxyType({32: 3.4028235677973366e38, 64: math.inf})
# All decimals with fewer digits before the point are below the largest double.
_DIGITS_OF_DOUBLE: Final = 308
# Of numpy's classes that are no integers. Its longer floats may become infinity.
_SHORT: Final = {"bool", "bool_", "float16", "float32", "float64"}
# Classes whose objects are no texts.
_NUMBERS: Final = ByClass(dict.fromkeys((float, int, bool, decimal.Decimal), True))


def is_rounded_to_infinity(data: Any, bits: int) -> bool:
    """Whether a float of these bits has infinity for this number, which is finite. False for an object that is none."""
    try:
        number = float(data)
    except OverflowError:
        return True
    except Exception as error:  # of the class of the value; the encoder meets it as well
        if is_outside(error):
            raise
        return False
    return abs(number) >= _TOO_LARGE[bits] and not (math.isinf(number) and data == number)


def is_decimal_of_double(data: Any) -> bool:
    """Whether a decimal is far from becoming infinity in 64 bits: that is known much sooner than its float."""
    return type(data) is decimal.Decimal and data.adjusted() < _DIGITS_OF_DOUBLE


def is_never_infinite(kind: type) -> bool:
    """Whether no number of a class becomes infinity in 64 bits: it is finite there, or its float is an error."""
    if kind.__module__ == "numpy":
        return kind.__name__ in _SHORT or issubclass(kind, numbers.Integral)
    return issubclass(kind, (float, int, fractions.Fraction))


def is_text(data: Any) -> bool:
    """Whether a number would be read out of a text or bytes: no number has items."""
    kind = type(data)
    if kind in _NUMBERS:
        return False
    if not isinstance(data, float) and isinstance(data, Sequence):
        return True
    if data.__class__ is kind:
        # No proxy, which may stand for a number now and for a text later.
        _NUMBERS.remember(kind, True)
    return False

"""Lengths of time as arguments of calls."""

from __future__ import annotations

import math

from aioproducer.errors import ConfigurationError

__all__ = ["checked_timeout", "seconds_of"]


def checked_timeout(name: str, seconds: object) -> float | None:
    """A length of time in seconds, or None, of a call without a record."""
    if seconds is None:
        return None
    try:
        return seconds_of(name, seconds)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def seconds_of(name: str, seconds: object) -> float:
    """The number of seconds; ValueError for anything else."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise ValueError(f"{name} must be a number of seconds, not {type(seconds).__name__}")
    try:
        number = float(seconds)
    except OverflowError:
        number = math.inf
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} must be a number of seconds of 0 or more, not {number}")
    return number

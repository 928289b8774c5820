"""How much of the byte positions and seeds the tests with the proxy go through: see `tests/effort.py`."""

from __future__ import annotations

from tests.effort import FEW, PROOF

__all__ = ["LIMIT_OF_A_TEST", "PROOF", "cuts", "seeds"]

LIMIT_OF_A_TEST = 1200 if PROOF else 240
"""Seconds; but for the proof at length, as for all other tests."""
_STEP = 1 if PROOF else 64 if FEW else 16


def cuts(size: int) -> list[int]:
    """Where to cut a frame of this size: before its first byte, behind its last, and between."""
    return sorted({*range(0, size, _STEP), size - 1, size})


def seeds(count: int) -> range:
    """The seeds of a random test."""
    return range(count * 50 if PROOF else max(1, count // 5) if FEW else count)

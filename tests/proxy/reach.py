"""How much of the byte positions and seeds the tests with the proxy go through.

`make test` takes every 16th byte; with AIOPRODUCER_PROOF=1 in the environment (`make proof`) it is every byte, and 50
times as many seeds.
"""

from __future__ import annotations

import os

PROOF = os.environ.get("AIOPRODUCER_PROOF", "") not in ("", "0")

LIMIT_OF_A_TEST = 1200 if PROOF else 60
"""Seconds."""


def cuts(size: int) -> list[int]:
    """Where to cut a frame of this size: before its first byte, behind its last, and between."""
    return sorted({*range(0, size, 1 if PROOF else 16), size - 1, size})


def seeds(count: int) -> range:
    """The seeds of a random test."""
    return range(count * 50 if PROOF else count)

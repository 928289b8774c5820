"""Changes of a frame: two of it, another number or length, other bytes, other borders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import attrs

Make = Callable[[bytes], Sequence[bytes]]


def chopped(size: int) -> Make:
    """In pieces of this size."""
    return lambda frame: [frame[at : at + size] for at in range(0, len(frame), size)]


def split(data: bytes, borders: Iterable[int]) -> list[bytes]:
    """Cut at these places; places beyond the end count from its start again."""
    places = sorted({0, *(border % len(data) for border in borders), len(data)})
    return [data[start:end] for start, end in pairwise(places)]


def border(at: int) -> Callable[[], Iterable[int]]:
    """Always the one border."""
    return lambda: [at]


@attrs.define(eq=False)
class Joined:
    """Frames are kept until there are so many of them, and then leave as one, cut at other borders."""

    together: int
    borders: Callable[[], Iterable[int]]
    _kept: list[bytes] = attrs.field(factory=list)
    pieces: int = 0

    def __call__(self, frame: bytes) -> list[bytes]:
        self._kept.append(frame)
        if len(self._kept) < self.together:
            return []
        pieces = split(b"".join(self._kept), self.borders())
        self._kept.clear()
        self.pieces += len(pieces)
        return pieces

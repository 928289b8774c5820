"""Knowledge about the classes of objects, for a bounded number of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

__all__ = ["MOST_CLASSES", "ByClass"]

V = TypeVar("V")

MOST_CLASSES: Final = 1_000
"""The classes that are remembered at a time: more than programs have, but for those that make them without end."""


class ByClass(dict[type, V]):
    """A mapping by classes, which forgets all but the given ones when there are too many.

    A class that is remembered stays in memory, and some programs make classes without end: `DataFrame.itertuples()` makes
    one for each frame.
    """

    def __init__(self, given: Mapping[type, V] | Iterable[tuple[type, V]] = ()) -> None:
        super().__init__(given)
        self._given = MappingProxyType(dict(self))

    def remember(self, kind: type, found: V) -> V:
        """Note a finding about a class, and return it."""
        if len(self) >= MOST_CLASSES:
            # One by one: encoders may be called in several threads, and none of them misses a given one meanwhile.
            for each in list(self):
                if each not in self._given:
                    self.pop(each, None)
        self[kind] = found
        return found

"""The findings of one source, in constant space: enough to tell whether each sequence is there once, and in order."""

from __future__ import annotations

from typing import Any, Final, Self

import attrs
import numpy as np

__all__ = ["SHOWN", "Seen"]

# The number of named examples of each fault.
SHOWN: Final = 5
_MODULUS: Final = 1 << 64


@attrs.define
class Seen:
    """The records of a source in a piece of a partition, in the order of their offsets."""

    count: int = 0
    first: int = -1
    last: int = -1
    most: int = -1
    # The sums of all sequences, and of their squares: other sequences can hardly have both sums.
    total: int = 0
    squares: int = 0
    backwards: int = 0
    # Offsets of records after one of the same or a higher sequence.
    examples: list[int] = attrs.Factory(list)

    @classmethod
    def of(cls, sequences: Any, offsets: Any) -> Self:
        """The findings of these records, at least one."""
        wrong = np.flatnonzero(sequences[1:] <= sequences[:-1]) + 1
        unsigned = sequences.astype(np.uint64)
        return cls(
            count=len(sequences),
            first=int(sequences[0]),
            last=int(sequences[-1]),
            most=int(sequences.max()),
            total=int(sequences.sum()),
            squares=int((unsigned * unsigned).sum(dtype=np.uint64)),
            backwards=len(wrong),
            examples=offsets[wrong[:SHOWN]].tolist(),
        )

    def follow(self, other: Seen, offset: int) -> None:
        """Add the records that follow in the same partition, from this offset on."""
        if self.count and other.first <= self.last:
            self.backwards += 1
            self.examples = [*self.examples, offset][:SHOWN]
        self.first = self.first if self.count else other.first
        self.last = other.last
        self._add(other)

    def beside(self, other: Seen) -> None:
        """Add the records of another partition, which has no order relative to this one."""
        self._add(other)

    def _add(self, other: Seen) -> None:
        self.count += other.count
        self.most = max(self.most, other.most)
        self.total += other.total
        self.squares = (self.squares + other.squares) % _MODULUS
        self.backwards += other.backwards
        self.examples = (self.examples + other.examples)[:SHOWN]

    def is_each_once(self, expected: int) -> bool:
        """Whether these are the sequences from 0 to one less than that, each once."""
        total = expected * (expected - 1) // 2
        squares = (expected - 1) * expected * (2 * expected - 1) // 6 % _MODULUS
        return (self.count, self.total, self.squares) == (expected, total, squares)

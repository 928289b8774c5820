"""A shape of production: records with random keys for one or many topics, at a pace or as fast as possible."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from benchmarks.measure import SEED, Offsets, Round, Stopwatch, Work, check_offsets, no_offsets

_TICK: Final = 0.001
_UNPACED: Final = 500
_KEY_SIZE: Final = 16
# More than any topic here has partitions.
_STRIDE: Final = 1_000_000


class Tick(NamedTuple):
    """Records that are due together, as pairs of topic and key, and the seconds until then."""

    pause: float
    records: list[tuple[str, bytes]]


def ticks(one: Work, count: int) -> Iterator[Tick]:
    """So many records, those of each millisecond together."""
    rng = random.Random(SEED)
    names = one.topic_names
    each = max(1, round(one.rate * _TICK)) if one.rate else _UNPACED
    began = time.monotonic()
    for first in range(0, count, each):
        some = range(first, min(count, first + each))
        records = [(names[number % len(names)], rng.randbytes(_KEY_SIZE)) for number in some]
        due = began + first / one.rate if one.rate else began
        yield Tick(max(0.0, due - time.monotonic()), records)


def round_of(watch: Stopwatch, one: Work, version: str, **figures: float) -> Round:
    """The round of one client, whose processor time is its result."""
    return watch.round(one.records, version, cpu_us=watch.cpu_seconds / one.records * 1e6, **figures)


class Places:
    """The places of the records: each topic and partition has offsets without a gap or a repeat."""

    def __init__(self, one: Work) -> None:
        self._numbers = {name: number * _STRIDE for number, name in enumerate(one.topic_names)}
        self._offsets: Offsets = no_offsets()

    def add(self, topic: str, partition: int, offset: int) -> None:
        """A record was written there."""
        self._offsets[self._numbers[topic] + partition].append(offset)

    def check(self, expected: int) -> None:
        """End the program unless all of them were written once."""
        check_offsets(self._offsets, expected)

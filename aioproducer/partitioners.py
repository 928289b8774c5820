"""Partitioners: the choice of a record's partition.

A partitioner is `(topic, key, value, partitions, available) -> int | None` over the serialized key and value, all
partitions of the topic, and those that have a leader; None leaves the choice to the default. A partitioner with state
should be an object with `for_producer()`, which returns a partitioner for each producer.

`default` is Kafka's: murmur2 of the key over all partitions; without a key, one partition for a batch, adaptively. It
is part of the compiled core and is not called: `bind` returns None for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import attrs
import mmh3

from aioproducer.errors import RecordError

__all__ = [
    "Partitioner",
    "PerProducer",
    "Random",
    "RoundRobin",
    "default",
    "murmur3",
    "random",
    "round_robin",
]

Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, Sequence[int], Sequence[int]], int | None]


class PerProducer(Protocol):
    """A factory of a partitioner for each producer."""

    def for_producer(self) -> Partitioner | None: ...


@attrs.define
class RoundRobin:
    """The available partitions of each topic in turn; keys are ignored (as in Kafka's `RoundRobinPartitioner`)."""

    _turns: dict[str, int] = attrs.field(factory=dict, init=False)

    def __call__(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partitions: Sequence[int],
        available: Sequence[int],
    ) -> int:
        """The next partition of `topic`."""
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        candidates = available or partitions
        return candidates[turn % len(candidates)]


def _below(limit: int) -> int:
    # Not from `secrets`, which loads half a megabyte of cryptography.
    return int.from_bytes(os.urandom(8)) % limit


@attrs.frozen
class Random:
    """A random available partition; keys are ignored. `below(n)` returns a number from 0 to n - 1."""

    below: Callable[[int], int] = _below

    def __call__(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partitions: Sequence[int],
        available: Sequence[int],
    ) -> int:
        """A random partition."""
        candidates = available or partitions
        return candidates[self.below(len(candidates))]


def murmur3_partition(
    topic: str,
    key: bytes | None,
    value: bytes | None,
    partitions: Sequence[int],
    available: Sequence[int],
) -> int | None:
    """The 32-bit murmur3 (x86, seed 0, unsigned) of the key over all partitions; without a key, the default."""
    if key is None:
        return None
    return partitions[mmh3.hash(key, 0, signed=False) % len(partitions)]


def _murmur3() -> Partitioner:
    return murmur3_partition


def _default() -> None:
    return None


@attrs.frozen(repr=False)
class BuiltIn:
    """A partitioner of this library, by name."""

    name: str
    for_producer: Callable[[], Partitioner | None]

    def __repr__(self) -> str:
        return f"partitioners.{self.name}"


default = BuiltIn("default", _default)
round_robin = BuiltIn("round_robin", RoundRobin)
murmur3 = BuiltIn("murmur3", _murmur3)
random = BuiltIn("random", Random)

BUILT_IN = {built_in.name: built_in for built_in in (default, round_robin, murmur3, random)}


def bind(partitioner: str | PerProducer | Partitioner) -> Partitioner | None:
    """The partitioner of one producer for its setting; None for the default, which is part of the core."""
    if isinstance(partitioner, str):
        return BUILT_IN[partitioner].for_producer()
    make: Callable[[], Partitioner | None] | None = getattr(partitioner, "for_producer", None)
    if make is not None:
        return make()
    return partitioner if callable(partitioner) else None


def choose(
    partitioner: Partitioner,
    topic: str,
    key: bytes | None,
    value: bytes | None,
    partitions: Sequence[int],
    available: Sequence[int],
) -> int | None:
    """The choice of `partitioner`; `RecordError` if it fails, or returns no partition of the topic."""
    try:
        chosen: Any = partitioner(topic, key, value, partitions, available)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise RecordError("the partitioner failed", topic=topic, cause=error) from error
    if chosen is None:
        return None
    if isinstance(chosen, bool) or not isinstance(chosen, int):
        raise RecordError(f"the partitioner returned {type(chosen).__name__}, not int or None", topic=topic)
    # A subclass may return anything from a comparison.
    number = int.__index__(chosen)
    if number not in partitions:
        raise RecordError(
            f"the partitioner returned partition {number}; the topic has {len(partitions)} partitions",
            topic=topic,
        )
    return number

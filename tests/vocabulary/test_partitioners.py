"""Partitioners: the partition of each record, their state, and the errors of wrong choices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import mmh3
import pytest

from aioproducer import partitioners
from aioproducer.config import SETTINGS, ProducerConfig
from aioproducer.config.callables import Partitioner as PartitionerKind
from aioproducer.errors import RecordError
from aioproducer.partitioners import (
    Partitioner,
    Random,
    RoundRobin,
    bind,
    choose,
    default,
    murmur3,
    round_robin,
)

ALL = (0, 1, 2, 3)


def bound(partitioner: Any) -> Partitioner:
    found = bind(partitioner)
    assert found is not None
    return found


def test_names_of_the_configuration_are_the_built_ins() -> None:
    """Every name that the configuration accepts is a built-in partitioner, and is exported under that name."""
    kind = SETTINGS["partitioner"].kind
    assert isinstance(kind, PartitionerKind)
    assert set(kind.names) == set(partitioners.BUILT_IN)
    for name in kind.names:
        assert getattr(partitioners, name) is partitioners.BUILT_IN[name]
        assert repr(partitioners.BUILT_IN[name]) == f"partitioners.{name}"


@pytest.mark.parametrize("partitioner", ["default", default])
def test_default_is_the_cores(partitioner: Any) -> None:
    """The default is not called from Python: there is nothing to bind."""
    assert bind(partitioner) is None
    assert ProducerConfig("a:1", partitioner=partitioner).partitioner == partitioner


def test_round_robin_takes_turns_for_each_topic() -> None:
    """Every topic has turns of its own, whatever the keys."""
    chosen = bound(round_robin)
    assert [chosen("a", b"same", None, ALL, ALL) for _ in range(5)] == [0, 1, 2, 3, 0]
    assert chosen("b", None, None, ALL, ALL) == 0


def test_round_robin_prefers_what_is_available() -> None:
    """Partitions without a leader are left out, until there are no others."""
    chosen = RoundRobin()
    assert [chosen("a", None, None, ALL, (1, 3)) for _ in range(3)] == [1, 3, 1]
    assert RoundRobin()("a", None, None, ALL, ()) == 0


@pytest.mark.parametrize("partitioner", ["round_robin", round_robin])
def test_producers_do_not_share_turns(partitioner: Any) -> None:
    """Two producers of one configuration have a round robin each."""
    first, second = bound(partitioner), bound(partitioner)
    assert [first("a", None, None, ALL, ALL), first("a", None, None, ALL, ALL)] == [0, 1]
    assert second("a", None, None, ALL, ALL) == 0


@pytest.mark.parametrize(("key", "hashed"), [(b"", 0), (b"hello", 0x248BFA47), (b"hello, world", 0x149BBB7F)])
def test_murmur3_is_the_published_hash(key: bytes, hashed: int) -> None:
    """The hash is murmur3 x86 32-bit with seed 0, unsigned (published vectors), over all partitions."""
    for count in (1, 3, 7, 1000):
        assert bound(murmur3)("t", key, None, range(count), (0,)) == hashed % count


def test_murmur3_leaves_records_without_a_key_to_the_default() -> None:
    """No key, no hash; an empty key is a key."""
    assert bound("murmur3")("t", None, b"v", ALL, ALL) is None
    assert bound("murmur3")("t", b"", b"v", ALL, ALL) == mmh3.hash(b"", 0, signed=False) % 4


def test_random_reaches_every_available_partition_and_no_other() -> None:
    """The random choice covers all available partitions, with and without keys."""
    chosen = bound("random")
    counts = Counter(chosen("t", b"k", None, ALL, (1, 3)) for _ in range(400))
    assert set(counts) == {1, 3}
    assert min(counts.values()) > 100  # fewer would happen once in 10^24 runs


def test_random_can_be_given_its_chance() -> None:
    """A source of numbers can be injected, so that a test is repeatable."""
    chosen = Random(below=lambda count: count - 1)
    assert chosen("t", None, None, ALL, (0, 2)) == 2
    assert chosen("t", None, None, ALL, ()) == 3


def test_functions_are_bound_as_they_are() -> None:
    """A callable without `for_producer` is the partitioner itself."""

    def mine(
        topic: str, key: bytes | None, value: bytes | None, every: Sequence[int], free: Sequence[int]
    ) -> int:
        return every[-1]

    assert bind(mine) is mine
    assert choose(mine, "t", None, None, ALL, ALL) == 3


def test_objects_may_make_a_partitioner_for_each_producer() -> None:
    """`for_producer()` of a user's object is called once for each producer."""

    class Mine:
        def for_producer(self) -> Partitioner:
            return RoundRobin()

    configured = ProducerConfig("a:1", partitioner=Mine()).partitioner  # type: ignore[arg-type]
    assert bind(configured) is not bind(configured)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (4, "returned partition 4; the topic has 4 partitions"),
        (-1, "returned partition -1"),
        (True, "returned bool, not int or None"),
        ("1", "returned str"),
        (1.0, "returned float"),
    ],
)
def test_wrong_choices_are_record_errors(chosen: Any, words: str) -> None:
    """A choice that is no partition of the topic refuses the record, by name of the topic."""
    with pytest.raises(RecordError, match=f"{words}.*topic 'orders'"):
        choose(lambda *_: chosen, "orders", None, None, ALL, ALL)


def test_failing_partitioner_is_a_record_error() -> None:
    """An exception in a partitioner refuses the record, with the exception as cause."""

    def failing(*_: object) -> int:
        raise KeyError("tenant")

    with pytest.raises(RecordError, match="the partitioner failed") as caught:
        choose(failing, "orders", None, None, ALL, ALL)
    assert isinstance(caught.value.cause, KeyError)


def test_none_leaves_the_choice_to_the_default() -> None:
    """None is a choice: the default partitioner's turn."""
    assert choose(lambda *_: None, "orders", b"k", None, ALL, ALL) is None

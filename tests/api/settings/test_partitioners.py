"""The choice of the partition: by the default, by the built-in partitioners, by one of the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from aioproducer import (
    Producer,
    RecordError,
    partitioners,
)
from tests.api.conftest import Make
from tests.api.support import warm


async def test_key_of_the_partitioner_is_the_serialized_one(make: Make) -> None:
    """Partitions are chosen by the bytes of the key."""
    plain = await warm(make())
    expected = [(await plain.send_and_wait("four", b"v", key=b"%d" % i)).partition for i in range(20)]
    producer = await warm(make(key_serializer=lambda number: b"%d" % number))
    found = [(await producer.send_and_wait("four", b"v", key=i)).partition for i in range(20)]
    assert found == expected
    assert len(set(found)) == 4


async def test_default_partitioner_without_a_key_sticks(producer: Producer) -> None:
    """Records without a key that are sent together share a partition."""
    deliveries = [await producer.send("four", b"v") for _ in range(50)]
    await producer.flush()
    assert len({delivery.partition for delivery in deliveries}) == 1


@pytest.mark.parametrize("name", ["round_robin", "murmur3", "random"])
async def test_built_in_partitioners(make: Make, name: str) -> None:
    """The built-in partitioners can be given by name or as objects, and use all partitions."""
    for given in (name, getattr(partitioners, name)):
        producer = await warm(make(partitioner=given))
        deliveries = [await producer.send("four", b"v", key=b"%d" % i) for i in range(200)]
        await producer.flush()
        assert {delivery.partition for delivery in deliveries} == {0, 1, 2, 3}


async def test_round_robin_takes_turns(make: Make) -> None:
    """round_robin gives each partition its turn."""
    producer = await warm(make(partitioner="round_robin"))
    found = [(await producer.send("four", b"v")).partition for _ in range(8)]
    assert found[:4] == found[4:]
    assert sorted(found[:4], key=lambda partition: partition or 0) == [0, 1, 2, 3]


@pytest.mark.parametrize("chosen", [2, None])
async def test_a_partitioner_is_called_once_for_a_record(make: Make, chosen: int | None) -> None:
    """Also with serializers; at a topic that is not known yet, and at one that is."""
    asked: list[bytes | None] = []

    def partitioner(topic: str, key: bytes | None, value: bytes | None, *_: Sequence[int]) -> int | None:
        asked.append(value)
        return chosen

    for settings in ({}, {"value_serializer": lambda value: value + b"."}):
        producer = make(partitioner=partitioner, **settings)
        await producer.start()
        values = [b"%d" % number for number in range(5)]
        deliveries = [await producer.send("four", value) for value in values]
        deliveries.append(await producer.send("four", b"chosen", partition=1))
        await producer.flush()
        assert {delivery.partition for delivery in deliveries[:-1]} <= ({2} if chosen else set(range(4)))
        assert deliveries[-1].partition == 1
        assert asked == [value + (b"." if settings else b"") for value in values]
        asked.clear()


async def test_custom_partitioner_is_asked_with_everything(make: Make) -> None:
    """A partitioner receives topic, serialized key and value, all partitions and the available ones."""
    asked: list[Any] = []

    def partitioner(
        topic: str, key: Any, value: Any, partitions: Sequence[int], available: Sequence[int]
    ) -> int:
        asked.append((topic, key, value, list(partitions), list(available)))
        return 2

    producer = await warm(make(partitioner=partitioner, value_serializer=str.encode))
    delivery = await producer.send("four", "v", key=b"k")
    assert delivery.partition == 2
    assert asked == [("four", b"k", b"v", [0, 1, 2, 3], [0, 1, 2, 3])]


async def test_explicit_partition_wins(make: Make) -> None:
    """An explicit partition is not chosen again."""
    producer = await warm(make(partitioner=lambda *_: 1 // 0))
    assert (await producer.send("four", b"v", partition=3)).partition == 3


async def test_custom_partitioner_that_leaves_it(make: Make) -> None:
    """None leaves the choice to the default."""
    producer = await warm(make(partitioner=lambda *_: None))
    plain = await warm(make())
    for i in range(10):
        mine = await producer.send("four", b"v", key=b"%d" % i)
        assert mine.partition == (await plain.send("four", b"v", key=b"%d" % i)).partition


@pytest.mark.parametrize("answer", [-1, 4, 1.5, "0", True])
async def test_custom_partitioner_with_a_bad_answer(make: Make, answer: Any) -> None:
    """An invalid answer is a RecordError, even for a record that had to wait."""
    producer = await warm(make(partitioner=lambda *_: answer))
    for topic in ("four", "new"):
        with pytest.raises(RecordError, match="partitioner"):
            await producer.send(topic, b"v")


async def test_custom_partitioner_that_fails(make: Make) -> None:
    """One that raises is a RecordError with its cause."""
    producer = await warm(make(partitioner=lambda *_: 1 // 0))
    with pytest.raises(RecordError, match="partitioner") as caught:
        await producer.send("four", b"v")
    assert isinstance(caught.value.cause, ZeroDivisionError)

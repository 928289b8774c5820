"""Columns of `send_batch()` that are not what they say, or that change after the call."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

from aioproducer import Outcome, Producer, RecordError
from aioproducer._core import BatchDelivery, Column
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, warm
from tests.runtime.support import sound


async def plain(value: bytes) -> bytes:
    """A coroutine serializer."""
    return value


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "serializer": {"value_serializer": lambda value: value},
    "coroutine serializer": {"value_serializer": plain},
    "partitioner": {"partitioner": lambda *_: 0},
}


@pytest.fixture(params=KINDS)
async def producer(request: pytest.FixtureRequest, make: Make, kafka: EmbeddedKafka) -> Producer[Any, Any]:
    """A running producer for each way that a bulk send can take."""
    return await warm(make(kafka, **KINDS[request.param]), "one")


class Liar(Sequence[Any]):
    """A sequence that says that it has another number of items than iterating it gives."""

    def __init__(self, said: int, items: Sequence[Any], *, endless: bool = False) -> None:
        self.said, self.items, self.endless = said, items, endless

    def __len__(self) -> int:
        return self.said

    def __getitem__(self, at: Any) -> Any:
        return self.items[at]

    def __iter__(self) -> Iterator[Any]:
        yield from self.items
        while self.endless:
            yield self.items[0]


THOUSAND = [b"%d" % number for number in range(1000)]
TIMES = [1_700_000_000_000] * 1000
FRAME = pd.DataFrame({"value": THOUSAND, "other": THOUSAND})

SHORT: dict[str, Callable[[], dict[str, Any]]] = {
    "values": lambda: {"values": Liar(1000, [b"a"])},
    "values without an end": lambda: {"values": Liar(1000, [b"a"], endless=True)},
    "values that say too little": lambda: {"values": Liar(3, THOUSAND)},
    "keys": lambda: {"values": THOUSAND, "keys": Liar(1000, [b"a"])},
    "timestamps": lambda: {"values": THOUSAND, "timestamps": Liar(1000, [5])},
    "partitions": lambda: {"values": THOUSAND, "partition": Liar(1000, [0])},
    "headers": lambda: {"values": THOUSAND, "headers": Liar(1000, [[("a", b"b")]])},
    "a DataFrame": lambda: {"values": FRAME},
    "a DataFrame of keys": lambda: {"values": THOUSAND, "keys": FRAME},
    "a DataFrame of times": lambda: {"values": THOUSAND, "timestamps": FRAME},
}


async def test_headers_that_can_be_read_once_are_those_of_each_record(
    producer: Producer[Any, Any], kafka: EmbeddedKafka
) -> None:
    """An iterator over one set of headers for all records is read once, and not by the first record."""
    pairs = [("name", b"1")]
    await (await producer.send_batch("one", [b"1", b"3"], headers=iter(pairs)))
    assert [record.headers for record in kafka.records("one")] == [tuple(pairs)] * 2


async def test_endless_headers_are_refused(producer: Producer[Any, Any]) -> None:
    """An iterator is read for all records at once, and may have no end: the call has one."""
    with pytest.raises(RecordError, match="headers has more than 1,000,000 items"):
        await producer.send_batch("one", [b"1"], headers=itertools.repeat(("a", b"1")))
    with pytest.raises(RecordError, match="headers has more than 1,000,000 items"):
        await producer.send("one", b"1", headers=itertools.repeat(("a", b"1")))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SHORT)
async def test_a_column_of_another_length_than_it_says(
    name: str, producer: Producer[Any, Any], kafka: EmbeddedKafka
) -> None:
    """The call is refused, with nothing accepted; nothing is read that is not there."""
    with pytest.raises(RecordError) as caught:
        await producer.send_batch("one", **SHORT[name]())
    assert caught.value.outcome is Outcome.NOT_WRITTEN
    await sound(producer)
    assert kafka.records("one") == []


async def test_a_caller_that_changes_its_lists_after_the_call(
    producer: Producer[Any, Any], kafka: EmbeddedKafka
) -> None:
    """The written records are those at the time of the call: later changes of the columns have no effect."""
    kafka.faults.delay(0.01, api="Metadata", topic="new", times=None)
    for topic in ("one", "new"):
        values, keys = [b"a", b"b", b"c"], [b"1", None, b"3"]
        times, headers = [7, 8, 9], [[("h", b"x")], None, [("h", b"z")]]
        partition = [0, 0, 0]
        sending = producer.send_batch(
            topic, values, keys=keys, timestamps=times, partition=partition, headers=headers
        )
        values.clear()
        keys[:] = [b"wrong"] * 50
        times.reverse()
        headers[0].append(("later", b"y"))  # type: ignore[union-attr]
        headers.pop()
        partition[0] = 77
        result = await (await sending)
        assert result.acked == 3
        written = [
            (record.value, record.key, record.timestamp, record.headers) for record in kafka.records(topic)
        ]
        assert written == [
            (b"a", b"1", 7, (("h", b"x"),)),
            (b"b", None, 8, ()),
            (b"c", b"3", 9, (("h", b"z"),)),
        ]
    await sound(producer)


async def test_numbers_of_numpy_and_columns_of_pandas(
    producer: Producer[Any, Any], kafka: EmbeddedKafka
) -> None:
    """An array and a Series are columns; what their owner writes into them later is not sent."""
    times, values = np.array([5, 6], np.int64), pd.Series([b"a", b"b"])
    sending = producer.send_batch("one", values, keys=np.array([b"k", b"l"]), timestamps=times)
    times[:] = 0
    values[:] = b"later"
    await (await sending)
    assert [(each.value, each.key, each.timestamp) for each in kafka.records("one")] == [
        (b"a", b"k", 5),
        (b"b", b"l", 6),
    ]


async def test_arrow_times_over_memory_that_is_changed(make: Make, kafka: EmbeddedKafka) -> None:
    """Times of an Arrow array that shares its memory with NumPy are those of the call."""
    producer = await warm(make(kafka), "one")
    kafka.faults.delay(0.01, api="Metadata", topic="new", times=None)
    own = np.array([5, 6, 7], np.int64)
    sending = producer.send_batch("new", [b"a", b"b", b"c"], timestamps=pa.array(own))
    own[:] = -1
    await (await sending)
    assert [record.timestamp for record in kafka.records("new")] == [5, 6, 7]


def offsets_of(*offsets: int) -> Any:
    """The offsets of a binary array."""
    return pa.py_buffer(np.array(offsets, np.int32).tobytes())


WRONG_ARRAYS: dict[str, Callable[[], Any]] = {
    "offsets behind the data": lambda: pa.Array.from_buffers(
        pa.binary(), 2, [None, offsets_of(0, 1 << 30, 2), pa.py_buffer(b"ab")]
    ),
    "offsets that go back": lambda: pa.Array.from_buffers(
        pa.binary(), 3, [None, offsets_of(0, 2, 1, 2), pa.py_buffer(b"ab")]
    ),
    "negative offsets": lambda: pa.Array.from_buffers(
        pa.binary(), 2, [None, offsets_of(0, -1000, 2), pa.py_buffer(b"ab")]
    ),
    "no data": lambda: LikeArrow(2, offsets_of(0, 1, 2), None),
    "an object like an array": lambda: LikeArrow(2, offsets_of(0, 1)),
    "an object like an array that says nothing": lambda: LikeArrow(2, None),
    "an object like an endless array": lambda: LikeArrow(1 << 40, offsets_of(0, 1)),
}


class LikeArrow:
    """An object that looks like an Arrow array, with too few offsets."""

    type = "binary"
    offset = 0

    def __init__(self, length: int, offsets: Any, data: Any = b"a") -> None:
        self.length, self.offsets, self.data = length, offsets, data

    def __len__(self) -> int:
        return self.length

    def buffers(self) -> Any:
        return (None, self.offsets, self.data)

    def to_pylist(self) -> Any:
        return [b"a"]


@pytest.mark.parametrize("name", WRONG_ARRAYS)
async def test_an_arrow_array_whose_offsets_lead_elsewhere(
    name: str, make: Make, kafka: EmbeddedKafka
) -> None:
    """The call is refused before anything is read behind the end of a buffer."""
    producer = await warm(make(kafka), "one")
    array = WRONG_ARRAYS[name]()
    for columns in ({"values": array}, {"values": [b"a"] * min(len(array), 5), "keys": array}):
        with pytest.raises(RecordError):
            await producer.send_batch("one", **columns)
    await sound(producer)
    assert kafka.records("one") == []


def test_compiled_columns_know_their_ends() -> None:
    """No wrong index and no wrong type is read, for any caller."""
    for column in (
        Column.of_items([b"a", b"b"]),
        Column.of_binary(2, 0, 4, None, offsets_of(0, 1, 2), b"ab"),
        Column.of_numbers(2, 0, None, np.array([1, 2], np.int64)),
    ):
        assert column is not None
        for at in (-1, 2, 1 << 40):
            with pytest.raises(IndexError):
                column.value_at(at)
    short = [b"a", b"b"]
    shrinking = Column.of_items(short)
    short.clear()
    with pytest.raises(IndexError):
        shrinking.value_at(0)
    for width, first, length in ((3, 0, 1), (4, -1, 1), (4, 0, -1), (8, 1 << 62, 1)):
        with pytest.raises((ValueError, OverflowError)):
            Column.of_binary(length, first, width, None, offsets_of(0, 1), b"a")
    with pytest.raises(ValueError, match="a buffer of an Arrow array has 1 bytes"):
        Column.of_binary(20, 0, 4, b"\xff", offsets_of(*range(21)), bytes(20))


async def test_compiled_columns_are_as_long_as_the_call(make: Make, kafka: EmbeddedKafka) -> None:
    """A column with fewer items than there are records is refused by the core itself."""
    producer = await warm(make(kafka), "one")
    assert producer._engine is not None
    topic = producer._engine.accumulator.cluster.topics["one"]
    good, bad = Column.of_items([b"a"] * 3), Column.of_items([b"a"] * 2)
    cases: list[tuple[Any, ...]] = [
        (bad, None, None, None, None, 0),
        (good, bad, None, None, None, 0),
        (good, None, [0], None, None, 0),
        (good, None, None, Column.of_items([1]), None, 0),
        (good, None, None, None, [None], 0),
        (good, None, None, None, None, -1),
        (good, None, None, None, None, 4),
    ]
    for values, keys, partitions, times, headers, start in cases:
        into = BatchDelivery("one", 3, producer._engine.loop)
        with pytest.raises(ValueError, match="a column has fewer than 3 records"):
            producer._append_many(topic, values, keys, partitions, times, headers, start, 0.0, into)
    await sound(producer)
    assert kafka.records("one") == []


async def test_items_that_fail_are_entries_of_errors(
    producer: Producer[Any, Any], kafka: EmbeddedKafka
) -> None:
    """A released memoryview, a buffer of another shape and an int refuse their own record, and the rest is written."""
    released = memoryview(b"gone")
    released.release()
    values = [b"0", released, b"2", memoryview(b"abcd")[::2], 5, b"5"]
    result = await (await producer.send_batch("one", values))
    assert sorted(result.errors) == [1, 4]
    assert all(error.outcome is Outcome.NOT_WRITTEN for error in result.errors.values())
    assert [record.value for record in kafka.records("one")] == [b"0", b"2", b"ac", b"5"]
    await sound(producer)


async def test_a_released_view_is_a_record_error(producer: Producer[Any, Any], kafka: EmbeddedKafka) -> None:
    """As value, as key and in a header, from every single send."""
    released = memoryview(b"gone")
    released.release()
    for record in ({"value": released}, {"key": released}, {"headers": [("h", released)]}):
        given: dict[str, Any] = {"value": b"v", **record}
        for way in (producer.send, producer.send_and_wait):
            with pytest.raises(RecordError) as caught:
                async with _bounded():
                    await way("one", **given)
            assert caught.value.outcome is Outcome.NOT_WRITTEN
    await sound(producer)
    assert kafka.records("one") == []


def _bounded() -> Any:
    import asyncio

    return asyncio.timeout(LIMIT)

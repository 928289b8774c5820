"""The columns of `send_batch()`: lists, Arrow arrays, one value for all."""

from __future__ import annotations

import datetime
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from aioproducer import Producer, RecordError
from aioproducer._net.accepting.arrow import listed_times
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import values, warm

BYTES: list[Any] = [b"a", None, b"", b"ddd", b"e" * 300]
TEXT: list[Any] = ["a", None, "", "ddd", "é" * 150]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
async def test_arrow_binary(producer: Producer, kafka: EmbeddedKafka, kind: Any) -> None:
    """Binary arrays, with nulls, are written value by value."""
    await (await producer.send_batch("one", pa.array(BYTES, kind)))
    assert values(kafka) == BYTES


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
async def test_arrow_string(producer: Producer, kafka: EmbeddedKafka, kind: Any) -> None:
    """String arrays are written as UTF-8."""
    await (await producer.send_batch("one", pa.array(TEXT, kind)))
    assert values(kafka) == [None if text is None else text.encode() for text in TEXT]


@pytest.mark.parametrize("kind", [pa.binary_view(), pa.string_view(), pa.binary(2)])
async def test_other_arrow_types_of_bytes(producer: Producer, kafka: EmbeddedKafka, kind: Any) -> None:
    """View and fixed-size arrays are written correctly, or refused by their name."""
    given = pa.array([b"ab", None, b"cd"], pa.binary()).cast(pa.string()).cast(kind)
    refusal = await refused(producer, given)
    if refusal is None:
        assert values(kafka) == [b"ab", None, b"cd"]
    else:
        assert str(kind) in str(refusal)
        assert values(kafka) == []


async def refused(producer: Producer, given: Any) -> RecordError | None:
    """Send it as a column of values; returns the refusal, if any."""
    try:
        await (await producer.send_batch("one", given))
    except RecordError as error:
        return error
    return None


async def test_sliced_array(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A slice, which shares its parent's buffers, is read from its own beginning."""
    await (await producer.send_batch("one", pa.array(BYTES, pa.binary())[1:4]))
    assert values(kafka) == BYTES[1:4]


async def test_slice_with_many_nulls(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Null bits are found in slices that begin in the middle of a byte."""
    given = [None if i % 3 else b"%d" % i for i in range(100)]
    await (await producer.send_batch("one", pa.array(given, pa.binary())[13:77]))
    assert values(kafka) == given[13:77]


async def test_chunked_array(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A chunked array, a column of a table, is one column."""
    given = pa.chunked_array([pa.array(BYTES[:2], pa.binary()), pa.array(BYTES[2:], pa.binary())])
    result = await (await producer.send_batch("one", given, keys=given))
    assert values(kafka) == BYTES
    assert [record.key for record in kafka.records("one")] == BYTES
    assert result.acked == 5


@pytest.mark.parametrize("chunks", [[], [[]], [[b"a"]]])
async def test_chunked_arrays_of_odd_shapes(
    producer: Producer, kafka: EmbeddedKafka, chunks: list[list[bytes]]
) -> None:
    """Chunked arrays of no chunk, an empty one, or one."""
    given = pa.chunked_array([pa.array(chunk, pa.binary()) for chunk in chunks], pa.binary())
    assert (await (await producer.send_batch("one", given))).acked == len(given)
    assert values(kafka) == given.to_pylist()


@pytest.mark.parametrize("given", [[], [None], [None, None], [b""], [b"", None]])
async def test_arrays_without_data(producer: Producer, kafka: EmbeddedKafka, given: list[Any]) -> None:
    """Arrays that are empty, all null or all empty, whose buffers may be missing."""
    await (await producer.send_batch("one", pa.array(given, pa.binary()), keys=pa.array(given, pa.binary())))
    assert values(kafka) == given


async def test_null_type(producer: Producer, kafka: EmbeddedKafka) -> None:
    """An array of Arrow's null type is refused by name, or taken as nulls."""
    refusal = await refused(producer, pa.nulls(2))
    assert values(kafka) == [None, None] if refusal is None else "null" in str(refusal)


@pytest.mark.parametrize("given", [pa.array([1, 2]), pa.array([1.5]), pa.array([[b"a"]])])
async def test_other_arrow_types_are_refused(producer: Producer, given: Any) -> None:
    """An array that is not of bytes is a RecordError that names its type."""
    with pytest.raises(RecordError, match=str(given.type)[:4]):
        await producer.send_batch("one", given)


async def test_arrow_keys_choose_partitions(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Keys of an array go to the partitions that the same keys as bytes go to."""
    keys = [b"%d" % i for i in range(50)]
    arrow = await (await producer.send_batch("four", keys, keys=pa.array(keys, pa.binary())))
    plain = await (await producer.send_batch("four", keys, keys=keys))
    assert list(arrow.partitions) == list(plain.partitions)
    assert len(set(plain.partitions)) == 4


STAMPS = [1_700_000_000_000, 1_700_000_000_001]


@pytest.mark.parametrize(
    "given",
    [
        STAMPS,
        pa.array(STAMPS, pa.int64()),
        pa.array(STAMPS, pa.timestamp("ms")),
        pa.array(STAMPS, pa.timestamp("ms", tz="UTC")),
        pa.array([stamp * 1000 for stamp in STAMPS], pa.timestamp("us", tz="Europe/Berlin")),
        pa.array([stamp * 1_000_000 for stamp in STAMPS], pa.timestamp("ns")),
        pa.array([0, *STAMPS], pa.int64())[1:],
        pa.chunked_array([pa.array(STAMPS[:1], pa.int64()), pa.array(STAMPS[1:], pa.int64())]),
        [datetime.datetime.fromtimestamp(stamp / 1000, datetime.UTC) for stamp in STAMPS],
    ],
)
async def test_timestamps(producer: Producer, kafka: EmbeddedKafka, given: Any) -> None:
    """Timestamps are milliseconds, aware datetimes, or Arrow arrays of int64 or timestamps of any unit."""
    await (await producer.send_batch("one", [b"a", b"b"], timestamps=given))
    assert [record.timestamp for record in kafka.records("one")] == STAMPS


async def test_seconds_of_arrow(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Timestamps in seconds become milliseconds."""
    await (await producer.send_batch("one", [b"a"], timestamps=pa.array([1_700_000_000], pa.timestamp("s"))))
    assert kafka.records("one")[0].timestamp == STAMPS[0]


async def test_seconds_of_arrow_that_are_no_milliseconds(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Seconds beyond the range of milliseconds are refused: 2**62 of them would become 0 milliseconds."""
    with pytest.raises(RecordError, match="out of bounds"):
        await producer.send_batch("one", [b"a"], timestamps=pa.array([2**62], pa.timestamp("s")))
    assert kafka.records("one") == []


@pytest.mark.parametrize(("unit", "in_one"), [("us", 1_000), ("ns", 1_000_000)])
def test_units_of_arrow_are_rounded_down(unit: str, in_one: int) -> None:
    """Also before 1970, and at both ends of the range: the least time was sent as one far in the future."""
    given = [-(2**63), -(2**63) + 1, -in_one - 1, -in_one, -1, None, 0, in_one - 1, in_one, 2**63 - 1]
    for times in (given, given[5:], [None], []):
        column = pa.array(times, pa.int64()).cast(pa.timestamp(unit, "Europe/Berlin"))
        assert listed_times(column, "one") == [None if time is None else time // in_one for time in times]


@pytest.mark.parametrize("given", [[None, STAMPS[1]], pa.array([None, STAMPS[1]], pa.timestamp("ms"))])
async def test_missing_timestamps_are_now(producer: Producer, kafka: EmbeddedKafka, given: Any) -> None:
    """A null among the timestamps is the time of acceptance."""
    await (await producer.send_batch("one", [b"a", b"b"], timestamps=given))
    first, second = (record.timestamp for record in kafka.records("one"))
    assert first > 1_700_000_000_001 == second


BEFORE_1970 = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, datetime.UTC)


@pytest.mark.parametrize(
    "given",
    [
        [-1, 5],
        pa.array([-1, 5], pa.int64()),
        [1.5, 5],
        [BEFORE_1970, 5],
        pa.array([-1, 5_000], pa.timestamp("us")),
        pa.array([-1, 5_000_000], pa.timestamp("ns", tz="Europe/Berlin")),
        pa.array([-1, 5], pa.timestamp("s")),
        pa.chunked_array([pa.array([-1], pa.timestamp("us")), pa.array([5_000], pa.timestamp("us"))]),
    ],
)
async def test_bad_timestamps_are_entries_of_errors(
    producer: Producer, kafka: EmbeddedKafka, given: Any
) -> None:
    """An invalid timestamp is an entry of errors, in a list or in an array."""
    result = await (await producer.send_batch("one", [b"a", b"b"], timestamps=given))
    assert sorted(result.errors) == [0]
    assert isinstance(result.errors[0], RecordError)
    assert values(kafka) == [b"b"]


async def test_partition_for_all(producer: Producer, kafka: EmbeddedKafka) -> None:
    """An int is the partition of every record."""
    result = await (await producer.send_batch("four", [b"a", b"b"], partition=3))
    assert list(result.partitions) == [3, 3]


@pytest.mark.parametrize("given", [[0, 3, None], (0, 3, None), pa.array([0, 3, None], pa.int64())])
async def test_partition_per_record(producer: Producer, kafka: EmbeddedKafka, given: Any) -> None:
    """A sequence has one partition per record; None leaves it to the partitioner."""
    result = await (await producer.send_batch("four", [b"a", b"b", b"c"], partition=given))
    assert list(result.partitions)[:2] == [0, 3]
    assert result.partitions[2] in range(4)


async def test_bad_partitions_are_entries_of_errors(
    producer: Producer[Any, Any], kafka: EmbeddedKafka
) -> None:
    """An invalid partition is an entry of errors; the others are written."""
    given: list[Any] = [0, -1, True, 1]
    result = await (await producer.send_batch("four", [b"0", b"1", b"2", b"3"], partition=given))
    assert sorted(result.errors) == [1, 2]
    assert sorted(value or b"" for value in values(kafka, "four")) == [b"0", b"3"]


async def test_missing_partition_does_not_stop_the_others(make: Make, kafka: EmbeddedKafka) -> None:
    """A partition that the topic does not have is an entry of errors in the end; the others are written."""
    producer = await warm(make(max_block_ms=300))
    result = await (await producer.send_batch("one", [b"0", b"1", b"2"], partition=[0, 9, 0]))
    assert sorted(result.errors) == [1]
    assert values(kafka) == [b"0", b"2"]


@pytest.mark.parametrize("given", [[("a", b"1")], (("a", b"1"),), {"a": b"1"}])
async def test_headers_for_all(producer: Producer, kafka: EmbeddedKafka, given: Any) -> None:
    """One set of headers is for every record."""
    await (await producer.send_batch("one", [b"a", b"b"], headers=given))
    assert [record.headers for record in kafka.records("one")] == [(("a", b"1"),)] * 2


@pytest.mark.parametrize(
    "given",
    [
        [[("a", b"1")], None],
        [{"a": b"1"}, {}],
        ((("a", b"1"),), ()),
        [[("a", b"1")], []],
    ],
)
async def test_headers_per_record(producer: Producer, kafka: EmbeddedKafka, given: Any) -> None:
    """A sequence of sets has one per record."""
    await (await producer.send_batch("one", [b"a", b"b"], headers=given))
    assert [record.headers for record in kafka.records("one")] == [(("a", b"1"),), ()]


async def test_headers_of_the_last_record_only(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Sets of headers of which the first are empty are still one per record."""
    await (await producer.send_batch("one", [b"a", b"b"], headers=[[], [("a", b"1")]]))
    assert [record.headers for record in kafka.records("one")] == [(), (("a", b"1"),)]


async def test_no_headers_per_record(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Records without headers are written without headers."""
    await (await producer.send_batch("one", [b"a", b"b"], headers=[None, None]))
    assert [record.headers for record in kafka.records("one")] == [(), ()]


async def test_bad_headers_are_entries_of_errors(producer: Producer[Any, Any], kafka: EmbeddedKafka) -> None:
    """An invalid set of headers is an entry of errors."""
    given: list[Any] = [{"a": b"1"}, {"a": 7}]
    result = await (await producer.send_batch("one", [b"a", b"b"], headers=given))
    assert sorted(result.errors) == [1]
    assert values(kafka) == [b"a"]


async def test_bytes_like_values(producer: Producer[Any, Any], kafka: EmbeddedKafka) -> None:
    """A list may hold every kind of bytes-like object."""
    await (await producer.send_batch("one", [b"a", bytearray(b"b"), memoryview(b"c"), None]))
    assert values(kafka) == [b"a", b"b", b"c", None]


async def test_tuple_and_own_sequences(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Any sequence is a column."""
    await (await producer.send_batch("one", (b"a", b"b"), keys=(b"k", None)))
    assert [(record.key, record.value) for record in kafka.records("one")] == [(b"k", b"a"), (None, b"b")]


async def test_arrow_through_serializers(make: Make, kafka: EmbeddedKafka) -> None:
    """With serializers the values of an array reach them as Python objects."""
    producer = await warm(make(value_serializer=lambda value: b"%d" % value))
    await (await producer.send_batch("one", pa.array([1, 2])))
    assert values(kafka) == [b"1", b"2"]


async def test_million_bytes_of_arrow(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Large arrays that fill many batches arrive whole and in order."""
    given = [b"%06d" % i * 10 for i in range(20_000)]
    result = await (await producer.send_batch("one", pa.array(given, pa.binary())))
    assert result.acked == 20_000
    assert values(kafka) == given


def test_pyarrow_is_not_imported() -> None:
    """Importing the library does not import pyarrow."""
    program = "import aioproducer, sys; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

"""The values that the encoder refuses because a field cannot hold them; the error names the field."""

from __future__ import annotations

import array
from collections import deque
from collections.abc import Callable, Sequence

import pytest

from aioproducer._wire.codec import encode
from aioproducer._wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from aioproducer._wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.wire.shapes import (
    FLEXIBLE,
    LATER,
    OLD,
    Blob,
    Changing,
    ManyTagged,
    MaybePoint,
    Numbers,
    Point,
    Points,
    Scalars,
    Tagged,
    Text,
    Texts,
    program,
)

NOT_CONTIGUOUS = memoryview(b"abcdef")[::2]


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("flag", 1, TypeError),
        ("tiny", 128, ValueError),
        ("tiny", -129, ValueError),
        ("small", 32768, ValueError),
        ("unsigned_small", -1, ValueError),
        ("unsigned_small", 65536, ValueError),
        ("medium", 2**31, ValueError),
        ("unsigned_medium", 2**32, ValueError),
        ("unsigned_medium", -1, ValueError),
        ("large", 2**63, ValueError),
        ("large", -(2**200), ValueError),
        ("medium", 1.0, TypeError),
        ("medium", "1", TypeError),
        ("medium", None, ValueError),
        ("real", "1.0", TypeError),
        ("identity", b"short", ValueError),
        ("identity", "0" * 16, TypeError),
    ],
)
def test_scalars(field: str, value: object, error: type[Exception]) -> None:
    """A number out of range, or something that is no number, is refused with the field's name."""
    with pytest.raises(error, match=rf"Scalars\.{field} \(version 0\) must "):
        program(Scalars).encode(Scalars()._replace(**{field: value}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "value", "error", "text"),
    [
        (Text, None, ValueError, r"Text\.value \(version 0\) must not be None"),
        (Text, b"bytes", TypeError, r"Text\.value \(version 0\) must be a str, not bytes"),
        (Text, "\ud800", ValueError, r"Text\.value \(version 0\) cannot be written as UTF-8: surrogates"),
        (Text, "x" * 32768, ValueError, r"Text\.value \(version 0\) is 32768 bytes long; Kafka allows 32767"),
        (Text, "é" * 16384, ValueError, r"Text\.value \(version 0\) is 32768 bytes long; Kafka allows 32767"),
        (Blob, "text", TypeError, r"Blob\.value \(version 0\) must be bytes-like, not str"),
        (Blob, NOT_CONTIGUOUS, ValueError, r"Blob\.value \(version 0\) must be contiguous in memory"),
        (Numbers, None, ValueError, r"Numbers\.values \(version 0\) must not be None"),
        (Numbers, 5, TypeError, r"Numbers\.values \(version 0\) must be a sequence, not int"),
        (Numbers, b"12", TypeError, r"Numbers\.values \(version 0\) must be a sequence, not bytes"),
        (Numbers, [1, "2"], TypeError, r"Numbers\.values \(version 0\) must be an int, not str"),
        (Numbers, {1, 2}, TypeError, r"Numbers\.values \(version 0\) must be a sequence, not set"),
        (Texts, "letters", TypeError, r"Texts\.values \(version 0\) must be a sequence, not str"),
        (Texts, ["a", None], ValueError, r"Texts\.values \(version 0\) must not be None"),
        (Points, [(1, 2)], TypeError, r"Points\.values \(version 0\) must be a Point, not tuple"),
        (Points, [Point("a")], TypeError, r"Point\.x \(version 0\) must be an int, not str"),  # type: ignore[arg-type]
        (MaybePoint, Text(), TypeError, r"MaybePoint\.point \(version 0\) must be a Point, not Text"),
    ],
)
def test_wrong_values(
    kind: Callable[[object], tuple[object, ...]], value: object, error: type[Exception], text: str
) -> None:
    """Each wrong value is named with its field, its version and what would be right."""
    message = kind(value)
    with pytest.raises(error, match=text):
        program(type(message)).encode(message)


def test_wrong_message() -> None:
    """A message of another type, or a plain tuple, is refused."""
    with pytest.raises(TypeError, match="a Point is needed, not tuple"):
        program(Point).encode((1, 2))
    with pytest.raises(TypeError, match="is not the type of a Kafka request or response"):
        encode(PartitionProduceData(), 9)


def test_what_a_version_lacks() -> None:
    """A field that the version lacks must be at its default, unless Kafka's definition says that it may be lost."""
    assert program(Changing).encode(Changing(1, ignorable=99)) == b"\x01"
    with pytest.raises(ValueError, match=r"Changing\.strict \(version 0\) does not exist in this version"):
        program(Changing).encode(Changing(1, strict=99))
    with pytest.raises(ValueError, match=r"Changing\.strict_list \(version 0\) does not exist"):
        program(Changing).encode(Changing(1, strict_list=[1]))
    assert program(Changing).encode(Changing(1, strict_list=[])) == b"\x01"
    assert program(Changing, LATER).encode(Changing(1, 2, 3, [4])) == b"\x01\x02\x03\x02\x04\x00"


def test_what_a_version_lacks_is_read_as_its_default() -> None:
    """Fields that the version lacks come back at their defaults, arrays as fresh lists."""
    first, second = (program(Changing).decode(b"\x01") for _ in range(2))
    assert first == (1, 5, 6, [])
    first.strict_list.append(1)
    assert second.strict_list == []
    assert program(Changing).decode(b"\x01").strict_list == []


def test_kafkas_own_rules_for_what_a_version_lacks() -> None:
    """Metadata before version 4 cannot forbid the creation of topics, and says so instead of creating them."""
    with pytest.raises(
        ValueError, match=r"MetadataRequest\.allow_auto_topic_creation \(version 3\) does not exist"
    ):
        encode(MetadataRequest([MetadataRequestTopic(name="t")], allow_auto_topic_creation=False), 3)


@pytest.mark.parametrize(
    "values",
    [(0, 1, 2), deque([0, 1, 2]), array.array("i", [0, 1, 2]), range(3)],
    ids=lambda v: type(v).__name__,
)
def test_any_sequence(values: Sequence[int]) -> None:
    """Arrays are written from any sequence."""
    assert program(Numbers).encode(Numbers(values)) == program(Numbers).encode(Numbers([0, 1, 2]))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: array.array("b", data)])
def test_any_bytes(kind: type[bytes]) -> None:
    """Bytes are written from whatever is bytes-like."""
    assert program(Blob).encode(Blob(kind(b"abc"))) == b"\0\0\0\x03abc"


def test_a_sequence_that_changes_while_it_is_written() -> None:
    """A list that shrinks under the encoder is an error, not a crash."""

    class Shrinking(list[int]):
        def __len__(self) -> int:
            values.clear()
            return 0

    values = [Tagged(numbers=Shrinking()), Tagged(), Tagged()]
    with pytest.raises(RuntimeError, match="changed while it was written"):
        program(ManyTagged, FLEXIBLE).encode(ManyTagged(values))


def test_long_messages() -> None:
    """A message far larger than the first buffer is written whole, tagged sizes of several bytes included."""
    numbers = list(range(100_000))
    written = program(Tagged, FLEXIBLE).encode(Tagged(1, numbers=numbers))
    assert program(Tagged, FLEXIBLE).decode(written) == Tagged(1, numbers=numbers)
    assert program(Blob, OLD).encode(Blob(bytes(1 << 20))) == (1 << 20).to_bytes(4) + bytes(1 << 20)


def test_names_that_hide_tuple_methods() -> None:
    """Kafka's fields `index` and `count` are fields, not the methods of tuple."""
    assert PartitionProduceData(index=7).index == 7
    topic = CreatePartitionsTopic("t", 9, None)
    assert topic.count == 9
    assert encode(CreatePartitionsRequest([topic]), 0)
    assert encode(
        ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(7)])]), 9
    )

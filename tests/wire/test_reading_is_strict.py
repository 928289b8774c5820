"""The input that the decoder refuses, rule by rule; each refusal is a `ProtocolError` that names the field."""

from __future__ import annotations

import random
import struct
import tracemalloc

import pytest

from aioproducer.errors import ProtocolError
from tests.wire.shapes import (
    FLEXIBLE,
    OLD,
    Blob,
    MaybePoint,
    Nothings,
    NullableBlob,
    NullableNumbers,
    NullableText,
    Numbers,
    Point,
    Points,
    Scalars,
    Tagged,
    Text,
    Texts,
    program,
)

HUGE = [0x7FFFFFFF, 0x7FFFFFFE, 1_000_000, 3]
NO_TAGS = b"\0"


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize("count", HUGE)
@pytest.mark.parametrize("kind", [Numbers, Texts, Points])
@pytest.mark.parametrize("version", [OLD, FLEXIBLE])
def test_count_beyond_the_bytes(kind: type[tuple[object, ...]], version: int, count: int) -> None:
    """An array that cannot fit into what remains is refused before anything is allocated for it."""
    frame = (int32(count) if version == OLD else varint(count + 1)) + b"\1"
    reader = program(kind, version)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match=rf"{kind.__name__}\.values .*count of {count} does not fit"):
            reader.decode(frame)
        # Of all threads: the runner of the tests has one of its own.
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [1, 5_000_000])
def test_elements_of_no_size_are_bounded(count: int) -> None:
    """Elements that take no bytes cannot be many either: each is counted as one byte."""
    with pytest.raises(ProtocolError, match="does not fit"):
        program(Nothings).decode(int32(count))


@pytest.mark.parametrize("length", HUGE)
@pytest.mark.parametrize("kind", [Text, Blob])
def test_length_beyond_the_bytes(kind: type[tuple[object, ...]], length: int) -> None:
    """A string or bytes longer than what remains is refused."""
    with pytest.raises(
        ProtocolError, match=rf"{kind.__name__}\.value .*{length} bytes are needed and 2 remain"
    ):
        program(kind, FLEXIBLE).decode(varint(length + 1) + b"ab")


@pytest.mark.parametrize(
    ("kind", "frame"),
    [(Text, b"\xff\xfe"), (Blob, int32(-2)), (NullableText, b"\x80\0"), (NullableNumbers, int32(-7))],
)
def test_negative_length(kind: type[tuple[object, ...]], frame: bytes) -> None:
    """Only -1 means null; every other negative length is refused."""
    with pytest.raises(ProtocolError, match="a negative length"):
        program(kind).decode(frame)


@pytest.mark.parametrize("version", [OLD, FLEXIBLE])
@pytest.mark.parametrize("kind", [Text, Blob, Numbers])
def test_null_where_none_is_allowed(kind: type[tuple[object, ...]], version: int) -> None:
    """Null is refused in a field that is not nullable in this version."""
    null = NO_TAGS + NO_TAGS if version == FLEXIBLE else b"\xff\xff" if kind is Text else int32(-1)
    with pytest.raises(ProtocolError, match="null, which is not allowed"):
        program(kind, version).decode(null)


@pytest.mark.parametrize("version", [OLD, FLEXIBLE])
@pytest.mark.parametrize("kind", [NullableText, NullableBlob, NullableNumbers])
def test_null_where_it_is_allowed(kind: type[tuple[object, ...]], version: int) -> None:
    """Null becomes None in a nullable field, and None becomes null."""
    written = program(kind, version).encode(kind(None))  # type: ignore[arg-type]
    assert program(kind, version).decode(written) == (None,)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b"\x80", id="cut off"),
        pytest.param(b"", id="missing"),
        pytest.param(b"\x81\0", id="a needless zero"),
        pytest.param(b"\x80\x80\x80\x80\0", id="five bytes for nothing"),
        pytest.param(b"\xff\xff\xff\xff\x1f", id="more than 32 bits"),
        pytest.param(b"\xff\xff\xff\xff\xff\x01", id="six bytes"),
    ],
)
@pytest.mark.parametrize("kind", [Text, Blob, Numbers])
def test_bad_varint(kind: type[tuple[object, ...]], bad: bytes) -> None:
    """A varint must end, be as short as it can, and fit into 32 bits."""
    with pytest.raises(ProtocolError, match="varint"):
        program(kind, FLEXIBLE).decode(bad)


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16383, 16384, 2097151, 2097152])
def test_varint_of_every_width(size: int) -> None:
    """Lengths around every change of the varint's width are read as they were written."""
    message = Blob(bytes(size))
    assert program(Blob, FLEXIBLE).decode(program(Blob, FLEXIBLE).encode(message)) == message


@pytest.mark.parametrize(
    "text",
    [b"\xff", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80",
     b"\xf5\x80\x80\x80", b"\x80", b"\xe2\x82", b"abcdefghijk\xf0\x9f\x9a", b"\xc3("],
)  # fmt: skip
def test_not_utf8(text: bytes) -> None:
    """Over-long forms, surrogates, numbers beyond Unicode, and cut-off characters are refused."""
    with pytest.raises(ProtocolError, match="not UTF-8"):
        program(Text, FLEXIBLE).decode(varint(len(text) + 1) + text + NO_TAGS)


def test_utf8_as_python_reads_it(rng: random.Random) -> None:
    """Whatever the bytes: the text is what Python makes of them, and what Python refuses is refused."""
    alphabet = [
        b"abcdefgh",
        b"\xc3\xa9",
        b"\xe6\x97\xa5",
        b"\xf0\x9f\x9a\x80",
        b"\xff",
        b"\x80",
        b"\xed\xa0\x80",
        b"z",
    ]
    for _ in range(3000):
        text = b"".join(rng.choices(alphabet, weights=(9, 9, 9, 9, 1, 1, 1, 9), k=rng.randint(0, 6)))
        frame = varint(len(text) + 1) + text + NO_TAGS
        try:
            expected = text.decode()
        except UnicodeDecodeError:
            with pytest.raises(ProtocolError):
                program_of_text.decode(frame)
        else:
            assert program_of_text.decode(frame) == (expected,)


program_of_text = program(Text, FLEXIBLE)


def test_string_longer_than_kafkas() -> None:
    """A string of 32,767 bytes is read; one more is refused, in flexible versions too, as Kafka does."""
    longest = "x" * 32767
    assert program_of_text.decode(program_of_text.encode(Text(longest))) == (longest,)
    with pytest.raises(ProtocolError, match="32768 bytes; Kafka allows 32767"):
        program_of_text.decode(varint(32769) + b"x" * 32768 + NO_TAGS)


@pytest.mark.parametrize("version", [OLD, FLEXIBLE])
def test_trailing_bytes(version: int) -> None:
    """Bytes after the message are refused, in every kind of version."""
    frame = program(Point, version).encode(Point(1, 2))
    with pytest.raises(ProtocolError, match="2 bytes too many at the end"):
        program(Point, version).decode(frame + b"ab")


@pytest.mark.parametrize("version", [OLD, FLEXIBLE])
def test_every_truncation(version: int) -> None:
    """A message that is cut off anywhere is refused."""
    for message in (
        Scalars(),
        Texts(["one", "two"]),
        Points([Point(), Point()]),
        MaybePoint(Point()),
        Tagged(1, 2),
    ):
        whole = program(type(message), version).encode(message)
        for size in range(len(whole)):
            with pytest.raises(ProtocolError):
                program(type(message), version).decode(whole[:size])


def test_nullable_struct() -> None:
    """One byte says whether a nullable struct follows: -1 for null, 1 for a struct (KIP-893)."""
    reader = program(MaybePoint)
    assert reader.encode(MaybePoint(None, 9)) == b"\xff\x09"
    assert reader.decode(b"\xff\x09") == (None, 9)
    assert reader.encode(MaybePoint(Point(1, 2), 9)) == b"\x01\0\0\0\x01\0\0\0\x02\x09"
    assert reader.decode(b"\x01\0\0\0\x01\0\0\0\x02\x09") == ((1, 2), 9)


def tagged(*fields: tuple[int, bytes]) -> bytes:
    body = b"".join(varint(tag) + varint(len(value)) + value for tag, value in fields)
    return b"\0" + varint(len(fields)) + body


def test_tagged_fields() -> None:
    """Tagged fields come in order of their tags; fields with their default are not written."""
    reader = program(Tagged, FLEXIBLE)
    assert reader.encode(Tagged()) == tagged()
    assert reader.encode(Tagged(first=8, numbers=[1])) == tagged((1, b"\0\x08"), (3, b"\x02\0\0\0\x01"))
    assert reader.decode(tagged((1, b"\0\x08"))) == (0, 8, [], Point())


def test_unknown_tags_are_skipped() -> None:
    """Tags that a later Kafka defines are skipped, between and around those that are known."""
    frame = tagged((0, b"new"), (1, b"\0\x08"), (2, b""), (3, b"\x01"), (900_000, b"x" * 300))
    assert program(Tagged, FLEXIBLE).decode(frame) == (0, 8, [], Point())


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (tagged((1, b"\0\0"), (1, b"\0\0")), "tag 1 stands twice or out of order"),
        (tagged((3, b"\1"), (1, b"\0\0")), "tag 1 stands twice or out of order"),
        (tagged((700, b""), (699, b"")), "tag 699 stands twice or out of order"),
        (tagged((1, b"\0\0\0")), "size is not that of its value"),
        (tagged((1, b"\0")), "2 bytes are needed and 1 remain"),
        (tagged((3, b"\x02\0\0\0")), "a count of 1 does not fit into the 4 bytes"),
        (b"\0" + varint(1) + varint(9) + varint(50) + b"abc", "50 bytes are needed and 3 remain"),
        (b"\0" + varint(0x7FFFFFFF) + b"abc", "2147483647 tagged fields do not fit into"),
        (b"\0" + varint(2) + b"\x09\0\x0a", "2 tagged fields do not fit"),
    ],
)
def test_bad_tags(frame: bytes, problem: str) -> None:
    """Tags must rise, must fit, and a known one must be exactly as long as its value."""
    with pytest.raises(ProtocolError, match=problem):
        program(Tagged, FLEXIBLE).decode(frame)


def test_a_tagged_value_cannot_borrow_bytes_from_what_follows() -> None:
    """A tagged array is measured against its own size, not against the frame."""
    with pytest.raises(ProtocolError, match="does not fit"):
        program(Tagged, FLEXIBLE).decode(b"\0\x01\x03\x01\x05" + bytes(16))


@pytest.mark.parametrize("start", [-1, 4])
def test_start_outside_the_buffer(start: int) -> None:
    """Reading from outside the buffer is the caller's mistake, not the peer's."""
    with pytest.raises(ValueError, match="start must be from 0 to 3"):
        program(Text).decode(b"\0\1a", start)


@pytest.mark.parametrize("buffer", [5, "text", None, [1, 2]])
def test_only_bytes_are_read(buffer: object) -> None:
    """An object that is not bytes-like is a TypeError: no peer can cause it."""
    with pytest.raises(TypeError):
        program(Text).decode(buffer)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "kind", [bytes, bytearray, memoryview, lambda data: memoryview(data * 2)[: len(data)]]
)
def test_any_buffer(kind: type[bytes]) -> None:
    """bytes, bytearray and memoryview are read alike."""
    frame = program(Texts).encode(Texts(["a", "bc"]))
    assert program(Texts).decode(kind(frame)) == (["a", "bc"],)


def test_scalars_at_their_limits() -> None:
    """Every number reaches both ends of its range."""
    lows = Scalars(False, -128, -32768, 0, -(2**31), 0, -(2**63), -1.5, bytes(16))
    highs = Scalars(True, 127, 32767, 65535, 2**31 - 1, 2**32 - 1, 2**63 - 1, 1e300, b"\xff" * 16)
    layout = struct.Struct(">?bhHiIqd16s")
    for message in (lows, highs):
        written = program(Scalars).encode(message)
        assert written == layout.pack(*message)
        assert program(Scalars).decode(written) == message

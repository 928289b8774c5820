"""Cutting received bytes into frames."""

from __future__ import annotations

import struct
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer._wire.frames import (
    FRAME_LIMIT,
    MOST_SPARE,
    RECEIVE_BUFFER,
    UNTRUSTED_FRAME_LIMIT,
    FrameAssembler,
    ReceiveBuffers,
)
from aioproducer.errors import ProtocolError
from tests.connection.peer import framed

SMALL = 32
LIMIT = 200


def feed(assembler: FrameAssembler, data: bytes, into: list[bytes] | None = None) -> list[bytes]:
    """Write the bytes as a transport does, and take the complete frames."""
    frames = [] if into is None else into
    while data:
        place = assembler.writable()
        count = min(len(place), len(data))
        place[:count] = data[:count]
        data = data[count:]
        assembler.received(count)
        while (frame := assembler.next_frame()) is not None:
            frames.append(bytes(frame))
    return frames


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The bytes in pieces."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


BODIES = st.lists(st.binary(min_size=4, max_size=LIMIT), min_size=1, max_size=8)


@given(BODIES, st.lists(st.integers(min_value=0), max_size=40))
def test_frames_are_the_same_wherever_the_stream_is_cut(bodies: list[bytes], places: list[int]) -> None:
    """Any split of the same bytes gives the same frames, shorter and longer than the buffer (A14)."""
    stream = b"".join(map(framed, bodies))
    assembler = FrameAssembler("b", LIMIT, ReceiveBuffers(SMALL))
    frames = [frame for piece in cut(stream, places) for frame in feed(assembler, piece)]
    assert frames == bodies
    assert assembler.missing is None


@pytest.mark.parametrize("body", [b"1234", b"x" * (SMALL - 4), b"x" * (SMALL - 3), b"x" * LIMIT])
def test_frames_survive_a_cut_at_every_byte(body: bytes) -> None:
    """Two frames cut once, at each place, and byte by byte, come out whole (A09, A13)."""
    stream = framed(body) * 2
    for place in range(len(stream) + 1):
        assembler = FrameAssembler("b", LIMIT, ReceiveBuffers(SMALL))
        assert feed(assembler, stream[:place]) + feed(assembler, stream[place:]) == [body, body]
    assembler = FrameAssembler("b", LIMIT, ReceiveBuffers(SMALL))
    assert [f for at in range(len(stream)) for f in feed(assembler, stream[at : at + 1])] == [body, body]


@given(
    st.lists(st.binary(min_size=4, max_size=SMALL), max_size=3),
    st.integers(min_value=-(2**31), max_value=2**31 - 1).filter(lambda n: not 4 <= n <= LIMIT),
    st.lists(st.integers(min_value=0), max_size=20),
)
def test_bad_length_is_told_the_same_wherever_the_stream_is_cut(
    bodies: list[bytes], length: int, places: list[int]
) -> None:
    """Frames before a bad length are delivered, then the same error comes, for any split (A14, B03)."""
    stream = b"".join(map(framed, bodies)) + struct.pack(">i", length) + b"more"
    assembler = FrameAssembler("b", LIMIT, ReceiveBuffers(SMALL))
    got: list[bytes] = []
    with pytest.raises(ProtocolError) as raised:
        for piece in cut(stream, places):
            feed(assembler, piece, got)
    assert got == bodies
    assert repr(struct.pack(">i", length)) in str(raised.value)


@pytest.mark.parametrize("length", [-1, 0, 3, -(2**31), 2**31 - 1, UNTRUSTED_FRAME_LIMIT + 1])
def test_impossible_length_is_refused_without_memory(length: int) -> None:
    """Negative, too short and too long lengths raise an error that names the broker and allocates nothing (B03, S19)."""
    assembler = FrameAssembler("kafka1:9092")
    assert assembler.writable()
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match=r"kafka1:9092"):
            feed(assembler, struct.pack(">i", length))
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024
    finally:
        tracemalloc.stop()


def test_trusted_peer_may_send_up_to_the_limit() -> None:
    """A frame of exactly the limit is taken, one byte more is not (S19)."""
    assembler = FrameAssembler("b", FRAME_LIMIT)
    assert feed(assembler, struct.pack(">i", FRAME_LIMIT) + b"abcd") == []
    assert assembler.missing == (4, FRAME_LIMIT)
    with pytest.raises(ProtocolError, match=str(FRAME_LIMIT)):
        feed(FrameAssembler("b", FRAME_LIMIT), struct.pack(">i", FRAME_LIMIT + 1))


@pytest.mark.parametrize(
    ("head", "hint"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP/1.1 400"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "TLS"),
        (b"\x16\x03\x01\x00\xaa", "TLS"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH"),
    ],
)
def test_other_protocols_are_named(head: bytes, hint: str) -> None:
    """The first bytes of a web server, a TLS or an SSH server are recognised (B03, B16)."""
    with pytest.raises(ProtocolError, match=hint):
        feed(FrameAssembler("b"), head)


def test_bytes_are_moved_at_most_once_however_they_trickle() -> None:
    """Frames that come byte by byte are moved less than once a byte, so that trickling is not quadratic (A13)."""

    class Counting(FrameAssembler):
        moved = 0

        def _to_front(self) -> None:
            Counting.moved += self._end - self._start
            super()._to_front()

    assembler = Counting("b", 10_000, ReceiveBuffers(1024))
    stream = framed(b"x" * 600) * 20 + framed(b"y" * 5000)
    for at in range(len(stream)):
        feed(assembler, stream[at : at + 1])
    feed(assembler, stream)
    assert 0 < Counting.moved < len(stream) // 2


def test_large_frame_gives_its_memory_back() -> None:
    """After a frame that needed its own buffer, nothing of it is kept."""
    assembler = FrameAssembler("b", FRAME_LIMIT)
    tracemalloc.start()
    try:
        data = framed(bytes(5_000_000))
        before = tracemalloc.get_traced_memory()[0]
        assert len(feed(assembler, data)[0]) == 5_000_000
        assert tracemalloc.get_traced_memory()[0] - before < 100_000
    finally:
        tracemalloc.stop()


def test_missing_tells_how_much_of_a_frame_has_come() -> None:
    """The missing part of a frame is known for error texts: nothing, part of a length, part of a body."""
    assembler = FrameAssembler("b")
    told = [assembler.missing]
    for piece in (b"\x00\x00", b"\x00\x09ab"):
        feed(assembler, piece)
        told.append(assembler.missing)
    assembler.discard()
    assert [*told, assembler.missing] == [None, (0, 0), (2, 9), None]


# -- buffers that connections share


@given(
    st.lists(BODIES, min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2 * SMALL)), max_size=60),
)
def test_connections_do_not_see_the_bytes_of_others(
    streams: list[list[bytes]], turns: list[tuple[int, int]]
) -> None:
    """Connections that share buffers get their own frames, in whatever pieces and turns the bytes come."""
    buffers = ReceiveBuffers(SMALL)
    left = [b"".join(map(framed, bodies)) for bodies in streams]
    assemblers = [FrameAssembler("b", LIMIT, buffers) for _ in streams]
    got: list[list[bytes]] = [[] for _ in streams]
    for turn, count in [*turns, *((each, LIMIT * 10) for each in range(len(streams)))]:
        one = turn % len(streams)
        feed(assemblers[one], left[one][:count], got[one])
        left[one] = left[one][count:]
    assert got == streams


def test_a_place_for_bytes_is_that_of_one_connection() -> None:
    """A transport may ask for the place long before it writes there."""
    buffers = ReceiveBuffers(SMALL)
    first, second = (FrameAssembler("b", LIMIT, buffers) for _ in range(2))
    place = first.writable()
    assert feed(second, framed(b"another one")) == [b"another one"]
    place[:8] = framed(b"1234")
    first.received(8)
    frame = first.next_frame()
    assert frame is not None
    assert bytes(frame) == b"1234"


def test_a_connection_without_a_buffer_gives_none_back() -> None:
    """Behind a large frame it has none: its stand-in would be the buffer of two connections."""
    buffers = ReceiveBuffers(SMALL)
    large = bytes(4 * SMALL)
    assert feed(FrameAssembler("b", FRAME_LIMIT, buffers), framed(large)) == [large]
    places = [FrameAssembler("b", FRAME_LIMIT, buffers).writable() for _ in range(3)]
    assert [len(place) for place in places] == [SMALL] * 3


def test_a_closed_connection_keeps_and_gives_no_buffer() -> None:
    """A handler may close its connection while it reads a frame: the frame stays as it is, and no buffer is taken any more."""
    buffers = ReceiveBuffers(SMALL)
    assembler = FrameAssembler("b", LIMIT, buffers)
    assembler.writable()[:8] = framed(b"1234")
    assembler.received(8)
    frame = assembler.next_frame()
    assembler.discard()
    assert feed(FrameAssembler("b", LIMIT, buffers), framed(b"5678")) == [b"5678"]
    assert frame is not None
    assert bytes(frame) == b"1234"
    assert 0 < len(assembler.writable()) < SMALL
    assert assembler.next_frame() is None


def test_idle_connections_have_no_buffers() -> None:
    """Between answers, also a large one, a connection holds no buffer; a few remain for the next bytes of any of them."""
    assemblers = [FrameAssembler("b", FRAME_LIMIT) for _ in range(100)]
    bodies = (bytes(1000), bytes(2 * RECEIVE_BUFFER))
    tracemalloc.start()
    try:
        for assembler in assemblers:
            for body in bodies:
                assert feed(assembler, framed(body)) == [body]
        assert tracemalloc.get_traced_memory()[0] < (MOST_SPARE + 1) * RECEIVE_BUFFER
    finally:
        tracemalloc.stop()

"""What can be made of a frame: two of it, another number or length, other bytes, other borders."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import attrs

_INT32 = struct.Struct(">i")
_LENGTH = 4
_ID = 4

HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
TLS_ALERT = bytes.fromhex("15030300020246")
TLS_HELLO = bytes.fromhex("160301") + bytes(100)
SSH = b"SSH-2.0-OpenSSH_9.6\r\n"

Make = Callable[[bytes], Sequence[bytes]]


def framed(body: bytes) -> bytes:
    """Behind its length."""
    return _INT32.pack(len(body)) + body


def twice(frame: bytes) -> list[bytes]:
    """The same again."""
    return [frame, frame]


def with_id(added: int) -> Make:
    """A correlation id that is this much higher, within 32 bits."""

    def make(frame: bytes) -> list[bytes]:
        number = (int.from_bytes(frame[_LENGTH : _LENGTH + _ID], "big") + added) % 2**32
        return [frame[:_LENGTH] + number.to_bytes(_ID, "big") + frame[_LENGTH + _ID :]]

    return make


def with_length(length: int) -> Make:
    """The frame behind another length than its own."""
    return lambda frame: [_INT32.pack(length) + frame[_LENGTH:]]


def instead(data: bytes) -> Make:
    """Bytes that have nothing to do with it."""
    return lambda _: [data]


def shorter(by: int) -> Make:
    """Bytes are missing at its end, and its length agrees."""
    return lambda frame: [framed(frame[_LENGTH : len(frame) - by])]


def longer(by: bytes) -> Make:
    """Bytes are left at its end, and its length agrees."""
    return lambda frame: [framed(frame[_LENGTH:] + by)]


def flipped(bit: int) -> Make:
    """One bit is the other way round."""

    def make(frame: bytes) -> list[bytes]:
        changed = bytearray(frame)
        changed[bit // 8] ^= 1 << bit % 8
        return [bytes(changed)]

    return make


def chopped(size: int) -> Make:
    """In pieces of this size."""
    return lambda frame: [frame[at : at + size] for at in range(0, len(frame), size)]


def split(data: bytes, borders: Iterable[int]) -> list[bytes]:
    """Cut at these places; places beyond the end count from its start again."""
    places = sorted({0, *(border % len(data) for border in borders), len(data)})
    return [data[start:end] for start, end in pairwise(places)]


def border(at: int) -> Callable[[], Iterable[int]]:
    """Always the one border."""
    return lambda: [at]


@attrs.define(eq=False)
class Joined:
    """Frames are kept until there are so many of them, and then leave as one, cut at other borders."""

    together: int
    borders: Callable[[], Iterable[int]]
    _kept: list[bytes] = attrs.field(factory=list)
    pieces: int = 0

    def __call__(self, frame: bytes) -> list[bytes]:
        self._kept.append(frame)
        if len(self._kept) < self.together:
            return []
        pieces = split(b"".join(self._kept), self.borders())
        self._kept.clear()
        self.pieces += len(pieces)
        return pieces

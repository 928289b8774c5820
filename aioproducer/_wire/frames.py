"""Divides the bytes of a peer into frames: a 4-byte length, then so many bytes, the correlation id first.

The bytes may come in any pieces. Frames that fit are parsed in the receive buffer, without a copy. A larger frame gets
a buffer of exactly its size, made only after its length was checked, so that a hostile length costs nothing. Each
arrival costs O(1), and each byte is moved at most once, even for a frame in many small pieces.

A receive buffer belongs to a connection only while bytes of an incomplete frame are in it, or may come into it: a thousand
idle connections have a few between them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from aioproducer.errors import ProtocolError

# Kafka's limit before authentication (its sasl.server.max.receive.size).
UNTRUSTED_FRAME_LIMIT = 512 * 1024
FRAME_LIMIT = 16 * 1024 * 1024
RECEIVE_BUFFER = 64 * 1024
# An event loop reads one connection at a time: the rest is for loops in other threads.
MOST_SPARE = 4

_PREFIX = 4
_SHORTEST = 4  # a response has at least its correlation id
_INT32 = struct.Struct(">i")
_LONG_HEAD = struct.Struct(">ii")
_NO_BUFFER = memoryview(bytearray(_LONG_HEAD.size))  # of connections that wait for bytes, or are closed
_TLS_ALERT, _TLS_HANDSHAKE, _TLS_MAJOR = 0x15, 0x16, 0x03


def _agreed(_correlation_id: int, _length: int) -> None:
    pass


class ReceiveBuffers:
    """Buffers of one size that connections take and give back, in any thread."""

    __slots__ = ("_size", "_spare")

    def __init__(self, size: int) -> None:
        self._size = size
        self._spare: list[memoryview] = []

    def take(self) -> memoryview:
        """A buffer that nothing else writes into."""
        try:
            return self._spare.pop()
        except IndexError:
            return memoryview(bytearray(self._size))

    def give_back(self, buffer: memoryview) -> None:
        """Nothing in this buffer is needed any more."""
        if len(self._spare) < MOST_SPARE:
            self._spare.append(buffer)


RECEIVE_BUFFERS = ReceiveBuffers(RECEIVE_BUFFER)


class FrameAssembler:
    """The received bytes of a connection, and the complete frames in them.

    The receiver writes into `writable()`, calls `received(n)`, then calls `next_frame()` until it returns None. A frame
    is a view of the receive buffer: it is valid only until the next call of `next_frame()`.

    `on_long` is called with the correlation id and the length of a frame that needs a buffer of its own, before the
    buffer is made; it may raise ProtocolError.
    """

    __slots__ = ("_buffers", "_end", "_large", "_large_end", "_start", "_view", "broker", "limit", "on_long")

    def __init__(
        self, broker: str, limit: int = UNTRUSTED_FRAME_LIMIT, buffers: ReceiveBuffers = RECEIVE_BUFFERS
    ) -> None:
        self.broker = broker
        self.limit = limit
        self.on_long: Callable[[int, int], None] = _agreed
        self._buffers: ReceiveBuffers | None = buffers
        self._view = _NO_BUFFER
        self._start = 0
        self._end = 0
        self._large: memoryview | None = None
        self._large_end = 0

    def writable(self) -> memoryview:
        """The place for the next bytes; never empty."""
        if self._large is not None:
            return self._large[self._large_end :]
        if self._end:
            return self._view[self._end :]
        if self._view is _NO_BUFFER and self._buffers is not None:
            self._view = self._buffers.take()
        return self._view

    def received(self, count: int) -> None:
        """So many bytes were written into `writable()`."""
        if self._large is not None:
            self._large_end += count
        else:
            self._end += count

    def next_frame(self) -> memoryview | None:
        """The next complete frame (without its length), or None until more bytes come."""
        if self._large is not None:
            return self._large_frame()
        start = self._start
        available = self._end - start - _PREFIX
        if available >= 0:
            (length,) = _INT32.unpack_from(self._view, start)
            if not _SHORTEST <= length <= self.limit:
                raise self._bad_length(length)
            if available >= length:
                self._start = start = start + _PREFIX + length
                return self._view[start - length : start]
            self._make_room(length)
        elif self._start == self._end:
            self._release()
        else:
            self._to_front()
        return None

    @property
    def missing(self) -> tuple[int, int] | None:
        """(received, expected) bytes of a frame that is not complete yet; expected is 0 while unknown."""
        if self._large is not None:
            return self._large_end, len(self._large)
        have = self._end - self._start
        if not have:
            return None
        if have < _PREFIX:
            return 0, 0
        return have - _PREFIX, int(_INT32.unpack_from(self._view, self._start)[0])

    def discard(self) -> None:
        """Drop the received bytes and the buffer; the connection is closed."""
        self._large = None
        # References to a closed connection (a cycle, until it is collected) must not keep 64 KiB. The buffer is not given
        # back: the handler of a frame that is a part of it may be closing the connection.
        self._buffers = None
        self._view = _NO_BUFFER
        self._start = self._end = 0

    def _release(self) -> None:
        """All bytes were taken: the buffer is for any connection."""
        view, self._view = self._view, _NO_BUFFER
        if view is not _NO_BUFFER and self._buffers is not None:
            self._buffers.give_back(view)
        self._start = self._end = 0

    def _large_frame(self) -> memoryview | None:
        frame = self._large
        if frame is None or self._large_end < len(frame):
            return None
        self._large = None
        return frame

    def _make_room(self, length: int) -> None:
        if _PREFIX + length > len(self._view):
            self._make_large(length)
        elif self._start + _PREFIX + length > len(self._view):
            self._to_front()

    def _to_front(self) -> None:
        # A frame is moved at most once after its length is known: at the front it fits, so there is no second time.
        have = self._end - self._start
        self._view[:have] = self._view[self._start : self._end]
        self._start, self._end = 0, have

    def _make_large(self, length: int) -> None:
        if self._end - self._start < _LONG_HEAD.size:
            self._to_front()  # the correlation id comes first
            return
        self.on_long(_LONG_HEAD.unpack_from(self._view, self._start)[1], length)
        self._start_large(length)

    def _start_large(self, length: int) -> None:
        # Zeroed pages are not resident until bytes arrive in them: an announced length costs memory only as the bytes
        # arrive.
        body = self._view[self._start + _PREFIX : self._end]
        self._large = memoryview(bytearray(length))
        self._large[: len(body)] = body
        self._large_end = len(body)
        self._release()

    def _bad_length(self, length: int) -> ProtocolError:
        head = bytes(self._view[self._start : self._start + _PREFIX])
        guess = _guess(head)
        told = (
            guess
            or f"it announced an answer of {length} bytes, where {_SHORTEST} to {self.limit} are allowed"
        )
        return ProtocolError(
            f"this is not a Kafka answer (it begins with {head!r}): {told}", broker=self.broker
        )


def _guess(head: bytes) -> str | None:
    """The probable protocol of the peer, by the first four bytes of its answer."""
    if head[:2] in (bytes((_TLS_ALERT, _TLS_MAJOR)), bytes((_TLS_HANDSHAKE, _TLS_MAJOR))):
        return (
            "the peer speaks TLS on this port, and security_protocol is PLAINTEXT; "
            "use the port of a PLAINTEXT listener, or a security_protocol with TLS"
        )
    if head == b"HTTP":
        return "the peer is a web server (it answered like HTTP/1.1 400); check the port in bootstrap_servers"
    if head == b"SSH-":
        return "the peer is an SSH server; check the port in bootstrap_servers"
    return None

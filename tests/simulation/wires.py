"""Connections without sockets: two transports and, between them, bytes on their way.

The bytes of a transport stay where they are until the "kernel" takes them: bytes that are changed meanwhile arrive
changed. The kernel's bytes arrive in order, in pieces, after a while, also when the sender has closed since: a
resumed broker reads the bytes that were sent before it was stopped.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Protocol

import attrs

from tests.simulation.loop import SimulatedLoop

_HIGH_WATER: Final = 64 * 1024
Buffer = bytes | bytearray | memoryview


class End(enum.Enum):
    """How a direction of a connection ends."""

    FIN = "the sender has nothing more to say"
    RST = "the connection is gone"


class LinkConditions(Protocol):
    """How bytes travel."""

    def latency(self) -> float:
        """Seconds until bytes that leave now arrive."""

    def piece(self) -> int:
        """The most bytes that arrive together."""

    @property
    def pace(self) -> float:
        """Seconds from one piece to the next."""

    @property
    def window(self) -> int:
        """The most bytes on their way or unread."""


@attrs.define(eq=False)
class Cut:
    """End the connection after so many more bytes of one direction."""

    after: int
    end: End
    happened: bool = False


class Flow:
    """One direction of a connection."""

    def __init__(self, loop: SimulatedLoop, conditions: LinkConditions) -> None:
        self.loop = loop
        self.conditions = conditions
        self.sender: MemoryTransport
        self.receiver: MemoryTransport
        self.held = False
        self.cut: Cut | None = None
        self.arrived = 0
        self.delivered = 0
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._travelling: deque[tuple[float, bytes | End]] = deque()
        self._travelling_bytes = 0
        self._unread: deque[bytes | End] = deque()
        self._unread_bytes = 0
        self._last_at = 0.0
        self._awake = False
        self._ended = False

    @property
    def unsent(self) -> int:
        """Bytes that the sender's transport still holds."""
        return self._unsent_bytes

    # -- the sender's side

    def put(self, data: Buffer) -> None:
        """The sender's transport got these bytes."""
        view = memoryview(data)
        if view:
            self._unsent.append(view)
            self._unsent_bytes += len(view)
            self._take()

    def end(self, end: End) -> None:
        """The sender is done; its earlier bytes still travel."""
        if not self._ended:
            self._ended = True
            self._send_off(end)

    def drop_unsent(self) -> None:
        """The sender's transport drops the bytes that the kernel has not taken."""
        self._unsent.clear()
        self._unsent_bytes = 0

    def _take(self) -> None:
        """The kernel takes the bytes that the window allows."""
        if self._unsent:
            room = self.conditions.window - self._travelling_bytes - self._unread_bytes
            while self._unsent and room > 0:
                piece = self._next_piece(min(room, self.conditions.piece()))
                room -= len(piece)
                self._travelling_bytes += len(piece)
                self._send_off(piece)
        self.sender.went(self._unsent_bytes)

    def _next_piece(self, limit: int) -> bytes:
        if len(self._unsent) == 1 and self._unsent_bytes <= limit:
            # Nearly always: a few bytes, and none behind them.
            self._unsent_bytes = 0
            return bytes(self._unsent.popleft())
        piece = bytearray()
        while self._unsent and len(piece) < limit:
            view = self._unsent.popleft()
            take = min(len(view), limit - len(piece))
            piece += view[:take]
            if take < len(view):
                self._unsent.appendleft(view[take:])
        self._unsent_bytes -= len(piece)
        return bytes(piece)

    def _send_off(self, thing: bytes | End) -> None:
        self._last_at = max(
            self._last_at + self.conditions.pace, self.loop.time() + self.conditions.latency()
        )
        self._travelling.append((self._last_at, thing))
        self._wake()

    # -- on the way

    def hold(self) -> None:
        """Stop the arrival of bytes."""
        self.held = True

    def release(self) -> None:
        """The held bytes arrive."""
        self.held = False
        self._wake()

    def vanish(self) -> None:
        """Travelling and later bytes are lost: the peer disappears silently."""
        self.held = True
        self._travelling.clear()

    def _wake(self) -> None:
        if self._travelling and not self.held and not self._awake:
            self._awake = True
            self.loop.call_at(self._travelling[0][0], self._arrive)

    def _arrive(self) -> None:
        self._awake = False
        while self._travelling and not self.held and self._travelling[0][0] <= self.loop.time():
            _, thing = self._travelling.popleft()
            if isinstance(thing, End):
                self._keep_end(thing)
                continue
            self._travelling_bytes -= len(thing)
            self._count(thing)
        self.read()
        self._wake()

    def _keep_end(self, end: End) -> None:
        if end is End.RST:
            # A reset is also noticed by an end that does not read, and by one that only writes.
            self.read()
            self.receiver.broken(end)
        else:
            self._unread.append(end)

    def _count(self, data: bytes) -> None:
        cut = self.cut
        if cut is not None and not cut.happened and self.arrived + len(data) >= cut.after:
            cut.happened = True
            data = data[: max(0, cut.after - self.arrived)]
            self._keep(data)
            self._travelling.clear()
            self._travelling_bytes = 0
            self.loop.call_soon(self._break, cut.end)
        else:
            self._keep(data)
        self.arrived += len(data)

    def _break(self, end: End) -> None:
        """A device on the way ends the connection, for both ends."""
        self.receiver.broken(end)
        self.sender.broken(end)

    # -- the receiver's side

    def _keep(self, data: bytes) -> None:
        self.delivered += len(data)
        self._unread.append(data)
        self._unread_bytes += len(data)

    def read(self) -> None:
        """Give the receiver the arrived bytes."""
        while self._unread and self.receiver.reads:
            thing = self._unread.popleft()
            if isinstance(thing, End):
                self.receiver.ended()
                continue
            self._unread_bytes -= len(thing)
            self.receiver.feed(thing)
        if self._unread and self.receiver.gone:
            self._unread.clear()
            self._unread_bytes = 0
            if not self._ended:
                # No peer reads: the peer's kernel answers with a reset.
                self.loop.call_later(self.conditions.latency(), self.sender.broken, End.RST)
        self._take()


class MemoryTransport(asyncio.Transport):
    """One end of a connection, as its protocol sees it."""

    def __init__(
        self,
        loop: SimulatedLoop,
        protocol: asyncio.BaseProtocol,
        out: Flow,
        into: Flow,
        name: tuple[str, int],
    ) -> None:
        super().__init__({"peername": name})
        self._loop = loop
        self._protocol = protocol
        self.out = out
        self.into = into
        self._closing = False
        self.gone = False
        self._paused = False
        self._full = False
        self._high_water = _HIGH_WATER
        self._made = False

    def begin(self) -> None:
        """Call connection_made()."""
        self._made = True
        self._protocol.connection_made(self)
        self.into.read()

    # -- writing

    def write(self, data: Any) -> None:
        """asyncio: send these bytes at some time."""
        if self.gone or self._closing:
            return
        self.out.put(data)
        self._look_at_room()

    def writelines(self, list_of_data: Any) -> None:
        """asyncio: send these in one go."""
        pieces: Sequence[Buffer] = list(list_of_data)
        for data in pieces:
            if not self.gone and not self._closing:
                self.out.put(data)
        self._look_at_room()

    def _look_at_room(self) -> None:
        if not self._full and self.out.unsent > self._high_water:
            self._full = True
            self._protocol.pause_writing()

    def went(self, left: int) -> None:
        """The kernel took some bytes."""
        if self._full and left <= self._high_water // 4 and not self.gone:
            self._full = False
            self._protocol.resume_writing()
        if self._closing and not left:
            self._finish(End.FIN)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """asyncio: more than `high` pauses the protocol, a quarter of it ends the pause."""
        assert low is None
        self._high_water = _HIGH_WATER if high is None else high
        self._look_at_room()

    def get_write_buffer_size(self) -> int:
        """asyncio: the number of bytes that wait to be sent."""
        return self.out.unsent

    def can_write_eof(self) -> bool:
        """asyncio: yes."""
        return True

    def write_eof(self) -> None:
        """asyncio: no more bytes will be sent."""
        self.out.end(End.FIN)

    # -- reading

    @property
    def reads(self) -> bool:
        """Does the protocol want bytes?"""
        return self._made and not self._paused and not self._closing and not self.gone

    def pause_reading(self) -> None:
        """asyncio: no bytes for now."""
        self._paused = True

    def resume_reading(self) -> None:
        """asyncio: go on."""
        self._paused = False
        self._loop.call_soon(self.into.read)

    def is_reading(self) -> bool:
        """asyncio: does it read?"""
        return self.reads

    def feed(self, data: bytes) -> None:
        """Bytes arrived."""
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            self._feed_buffered(protocol, memoryview(data))
        else:
            protocol.data_received(data)  # type: ignore[attr-defined]

    def _feed_buffered(self, protocol: asyncio.BufferedProtocol, rest: memoryview) -> None:
        while rest and not self.gone and not self._closing:
            buffer = memoryview(protocol.get_buffer(-1))
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            rest = rest[count:]
            protocol.buffer_updated(count)

    def ended(self) -> None:
        """The peer's direction has ended."""
        if not self._protocol.eof_received():  # type: ignore[attr-defined]
            self.close()

    # -- the end

    def is_closing(self) -> bool:
        """asyncio: was it closed?"""
        return self._closing or self.gone

    def close(self) -> None:
        """asyncio: end the connection after all bytes are sent."""
        if not self._closing and not self.gone:
            self._closing = True
            if not self.out.unsent:
                self._finish(End.FIN)

    def abort(self) -> None:
        """asyncio: end the connection now. The kernel's bytes still arrive."""
        if not self.gone:
            self._closing = True
            self.out.drop_unsent()
            self._finish(End.RST if self._loop.rng.random() < 0.5 else End.FIN)

    def _force_close(self, _error: Exception | None) -> None:
        """asyncio: its TLS ends a connection that cannot go on."""
        self.abort()

    def broken(self, end: End) -> None:
        """The connection ended, but not by a call."""
        if self.gone:
            return
        self.out.drop_unsent()
        error = ConnectionResetError(104, "Connection reset by peer") if end is End.RST else None
        if error is None and not self._closing:
            self.ended()
            return
        self._finish(End.RST, error)

    def fail(self, error: OSError) -> None:
        """The system reports that the connection is broken."""
        self.out.drop_unsent()
        self._finish(End.RST, error)

    def _finish(self, end: End, error: Exception | None = None) -> None:
        if self.gone:
            return
        self.gone = True
        self.out.end(end)
        self._loop.call_soon(self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        self._protocol.connection_lost(error)
        self.into.read()

"""Connections to a broker in memory: bytes that are written at one end arrive at the other in the loop's next turn."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, TypeVar

from aioproducer.testing.broker.broker import Broker
from aioproducer.testing.broker.server import BrokerProtocol

P = TypeVar("P", bound=asyncio.BaseProtocol)

HIGH_WATER = 64 * 1024


class PipeEnd(asyncio.Transport):
    """One end of a connection. It keeps the bytes that its own protocol has not received yet."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self.peer: PipeEnd = self
        self._loop = loop
        self._protocol = protocol
        self._arrived = bytearray()
        self._high = HIGH_WATER
        self._reading = True
        self._closing = False
        self._ended_by_peer = False
        self._peer_is_paused = False
        self._woken = False
        self._is_giving = False

    def connect(self) -> None:
        """Call `connection_made()` of the protocol."""
        self._protocol.connection_made(self)

    # -- called by a protocol

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Pass bytes to the other end."""
        if not self._closing and data:
            self.peer.arrive(bytes(data))

    def write_eof(self) -> None:
        """Announce the end of the bytes."""
        self.peer.end()

    def can_write_eof(self) -> bool:
        """True: the other end receives an end of file."""
        return True

    def get_write_buffer_size(self) -> int:
        """The bytes that the other end has not read."""
        return self.peer.unread

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Pause this end's protocol while more than `high` bytes are unread."""
        self.peer.limit(HIGH_WATER if high is None else high)

    def is_closing(self) -> bool:
        """Whether this end was closed."""
        return self._closing

    def is_reading(self) -> bool:
        """Whether the protocol accepts bytes."""
        return self._reading

    def pause_reading(self) -> None:
        """Stop calling the protocol with bytes."""
        self._reading = False

    def resume_reading(self) -> None:
        """Pass the arrived bytes to the protocol."""
        self._reading = True
        self._wake()

    def close(self) -> None:
        """End the connection; the other end still gets the bytes written before."""
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)
            self.peer.end()

    def abort(self) -> None:
        """The same: no bytes wait at this end."""
        self.close()

    # -- called by the other end

    @property
    def unread(self) -> int:
        """The number of bytes that wait here."""
        return len(self._arrived)

    def arrive(self, data: bytes) -> None:
        """Store bytes from the other end."""
        self._arrived += data
        self._follow_flow()
        self._wake()

    def end(self) -> None:
        """The other end has ended its bytes."""
        self._ended_by_peer = True
        self._wake()

    def limit(self, high: int) -> None:
        """Let the other end pause above so many bytes."""
        self._high = high
        self._follow_flow()

    # -- delivering

    def deliver(self) -> bool:
        """Give the protocol what has arrived; False: nothing has, or it is just being given bytes."""
        if (
            self._is_giving
            or self._closing
            or not self._reading
            or not (self._arrived or self._ended_by_peer)
        ):
            return False
        data, self._arrived = self._arrived, bytearray()
        self._is_giving = True
        try:
            self._give(data)
        finally:
            self._is_giving = False
        self._follow_flow()
        if self._ended_by_peer and not self._arrived and not self._closing:
            self._tell_the_end()
        return True

    def _tell_the_end(self) -> None:
        protocol = self._protocol
        if isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol):
            protocol.eof_received()
        self.close()

    def _give(self, data: bytearray) -> None:
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            rest = memoryview(data)
            while rest and not self._closing:
                buffer = memoryview(protocol.get_buffer(len(rest))).cast("B")
                size = min(len(buffer), len(rest))
                buffer[:size] = rest[:size]
                del buffer
                protocol.buffer_updated(size)
                rest = rest[size:]
        elif isinstance(protocol, asyncio.Protocol) and data:
            protocol.data_received(bytes(data))

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._loop.call_soon(self._deliver_soon)

    def _deliver_soon(self) -> None:
        self._woken = False
        self.deliver()

    def _follow_flow(self) -> None:
        paused = len(self._arrived) > self._high
        if paused is not self._peer_is_paused:
            self._peer_is_paused = paused
            self.peer.flow(paused=paused)

    def flow(self, *, paused: bool) -> None:
        """Pause or resume the writing of this end's protocol."""
        protocol = self._protocol
        if paused:
            protocol.pause_writing()
        else:
            protocol.resume_writing()


class Pipes:
    """A network with one broker, which answers at every address."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._connections: dict[BrokerProtocol, None] = {}
        self._ends: list[PipeEnd] = []

    async def look_up(self, host: str, port: int) -> list[Any]:
        """Every host name is known."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port))]

    async def create_connection(
        self, make: Callable[[], P], address: str, port: int, **tls: Any
    ) -> tuple[asyncio.BaseTransport, P]:
        """Connect to the broker."""
        loop = asyncio.get_running_loop()
        protocol = make()
        near, far = PipeEnd(loop, protocol), PipeEnd(loop, BrokerProtocol(self._broker, self._connections))
        near.peer, far.peer = far, near
        self._ends = [*(end for end in self._ends if not end.is_closing()), far, near]
        for end in (far, near):
            end.connect()
        return near, protocol

    def deliver(self) -> None:
        """Deliver the written bytes of both sides, and their answers, without a turn of the loop."""
        while any(end.deliver() for end in tuple(self._ends)):
            pass

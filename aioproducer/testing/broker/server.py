"""The sockets of the brokers."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from functools import partial
from typing import Any, cast

import attrs

from aioproducer.testing.broker.broker import Broker
from aioproducer.testing.broker.conversation import Conversation
from aioproducer.testing.broker.effects import Close, Effect, HalfClose, Write, WriteCut
from aioproducer.testing.broker.resets import reset as reset_connection
from aioproducer.testing.broker.rules import Asked, HangUp
from aioproducer.testing.broker.tls import TlsTransport


class BrokerProtocol(asyncio.Protocol):
    """Performs the effects of a `Conversation` on a transport."""

    def __init__(self, broker: Broker, open_ones: dict[BrokerProtocol, None]) -> None:
        self._broker = broker
        self._open_ones = open_ones
        self._conversation = Conversation(broker)
        self._loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._woken = False
        self._reading = True
        self._writable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast("asyncio.Transport", transport)
        self._open_ones[self] = None
        self._broker.cluster.changes.subscribe(self._changed)
        hang_up = self._broker.rules.before_request(Asked(self._broker.node.id, -1), HangUp)
        if hang_up is not None:
            self._end(reset=hang_up.reset)
        self._follow()

    def data_received(self, data: bytes) -> None:
        """Bytes of requests have arrived."""
        self._do(self._conversation.receive(data))

    def pause_writing(self) -> None:
        """The client does not read: stop reading requests."""
        self._writable = False
        self._follow()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._writable = True
        self._follow()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._open_ones.pop(self, None)
        self._broker.cluster.changes.unsubscribe(self._changed)
        self._stop_timer()
        if not self._lost.done():
            self._lost.set_result(None)

    @property
    def peer(self) -> Any:
        """The client's address."""
        return self._transport.get_extra_info("peername")

    def drop(self, *, reset: bool) -> None:
        """End the connection in any state."""
        self._end(reset=reset)

    async def lost(self) -> None:
        """Wait until the connection has ended; unread bytes are discarded."""
        if self._lost.done():
            return
        # A client over TLS may have been refused, and may not end its side.
        if not self._transport.can_write_eof() or self._transport.get_write_buffer_size():
            self._transport.abort()
        await asyncio.shield(self._lost)

    def _changed(self) -> None:
        if not self._woken and not (self._reading and self._conversation.idles):
            self._woken = True
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._woken = False
        if not self._transport.is_closing():
            self._do(self._conversation.wake())

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Write(data):
                    self._transport.write(data)
                case WriteCut(data, at_byte):
                    cast("TlsTransport", self._transport).write_cut(data, at_byte)
                case Close(reset, notify):
                    self._end(reset=reset, notify=notify)
                case HalfClose():
                    self._half_close()
        self._follow()

    def _half_close(self) -> None:
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            # TLS ends in both directions.
            self._end(reset=False)

    def _follow(self) -> None:
        """Set timer and reading to the needs of the conversation."""
        self._stop_timer()
        if self._transport.is_closing():
            return
        deadline = self._conversation.deadline
        if deadline is not None:
            delay = max(0.0, deadline - self._broker.cluster.clock())
            self._timer = self._loop.call_later(delay, self._wake)
        self._read(self._writable and self._conversation.reads)

    def _read(self, wanted: bool) -> None:
        if wanted is not self._reading:
            self._reading = wanted
            (self._transport.resume_reading if wanted else self._transport.pause_reading)()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, *, reset: bool, notify: bool = True) -> None:
        if reset:
            reset_connection(self._transport)
        elif notify:
            self._transport.close()
        else:
            cast("TlsTransport", self._transport).close_without_notify()


@attrs.define(eq=False)
class Sockets:
    """One listening socket for each running broker, and the accepted connections."""

    _brokers: dict[int, Broker]
    _tls: ssl.SSLContext | None = None
    _servers: dict[int, asyncio.Server] = attrs.field(factory=dict, init=False)
    # The port of each broker, bound a second time without listening: it stays reserved while the broker is down.
    _kept_ports: dict[int, asyncio.Server] = attrs.field(factory=dict, init=False)
    # In the order of their opening: a set is iterated by address, which a seed does not replay.
    _connections: dict[int, dict[BrokerProtocol, None]] = attrs.field(init=False)
    _handshakes: dict[int, dict[TlsTransport, None]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._connections = {broker_id: {} for broker_id in self._brokers}
        self._handshakes = {broker_id: {} for broker_id in self._brokers}

    async def open(self, broker_id: int, port: int | None = None) -> None:
        """Listen, at any free port unless one is set; a second call changes nothing."""
        if broker_id in self._servers:
            return
        broker, loop = self._brokers[broker_id], asyncio.get_running_loop()
        # Two steps: asyncio leaks the socket if it is cancelled while it starts to serve.
        server = await loop.create_server(
            partial(self._protocol, broker),
            broker.node.host,
            port or 0,
            backlog=1024,
            start_serving=False,
        )
        self._servers[broker_id] = server
        taken = server.sockets[0].getsockname()[1]
        if taken != broker.node.port:
            self._leave_port(broker_id)
        broker.node.port = taken
        await self._keep_port(broker_id)
        await server.start_serving()

    def _protocol(self, broker: Broker) -> asyncio.Protocol:
        """The protocol of a new connection."""
        protocol = BrokerProtocol(broker, self._connections[broker.node.id])
        if self._tls is None:
            return protocol
        return TlsTransport(
            self._tls, protocol, broker.rules, broker.node.id, self._handshakes[broker.node.id]
        )

    async def close(self, broker_id: int) -> None:
        """Stop listening; accepted connections stay."""
        server = self._servers.pop(broker_id, None)
        if server is not None:
            _accept_no_more(server)
            # A connection accepted in this turn gets its transport in the next one. From a closed server it would get
            # none, and its socket would stay open.
            await asyncio.sleep(0)
            server.close()
            # asyncio removes a listening socket from its selector at once and closes it in the next turn of the loop.
            await asyncio.sleep(0)

    async def _keep_port(self, broker_id: int) -> None:
        """Bind the port of a broker a second time, where the system allows it; Linux does before either socket listens."""
        if broker_id in self._kept_ports:
            return
        node = self._brokers[broker_id].node
        with contextlib.suppress(OSError):
            self._kept_ports[broker_id] = await asyncio.get_running_loop().create_server(
                asyncio.Protocol, node.host, node.port, start_serving=False
            )

    def _leave_port(self, broker_id: int) -> None:
        kept = self._kept_ports.pop(broker_id, None)
        if kept is not None:
            kept.close()

    def drop_connections(self, broker_id: int, *, reset: bool) -> None:
        """End all connections of a broker."""
        for connection in tuple(self._connections[broker_id]):
            connection.drop(reset=reset)
        for handshake in tuple(self._handshakes[broker_id]):
            handshake.abort()

    def connections(self, broker_id: int) -> tuple[BrokerProtocol, ...]:
        """The connections of a broker."""
        return tuple(self._connections[broker_id])

    async def close_all(self) -> None:
        """Close all sockets and timers."""
        for broker_id in self._brokers:
            await self.close(broker_id)
            self._leave_port(broker_id)
            self.drop_connections(broker_id, reset=False)
        for connections in self._connections.values():
            for connection in tuple(connections):
                await connection.lost()
        for handshakes in self._handshakes.values():
            for handshake in tuple(handshakes):
                await handshake.lost()


def _accept_no_more(server: asyncio.Server) -> None:
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        # Loops without readers (Windows) have no gap between accepting a connection and creating its transport.
        with contextlib.suppress(NotImplementedError):
            loop.remove_reader(listening.fileno())

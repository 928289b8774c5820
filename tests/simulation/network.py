"""The network of a simulation: listeners, routes, and the way of bytes.

A producer and the embedded Kafka use it through their event loop (`create_connection`, `create_server`), so that both run
as they are.
"""

from __future__ import annotations

import asyncio
import errno
import random
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import Any, Final

import attrs

from tests.simulation.loop import SimulatedLoop
from tests.simulation.wires import Cut, End, Flow, MemoryTransport

_FIRST_PORT: Final = 9092


@attrs.define(eq=False)
class Conditions:
    """How bytes travel: drawn from the seed, and changed by faults."""

    rng: random.Random
    fastest: float = 0.0002
    slowest: float = 0.002
    fragmented: float = 0.1
    trickle: bool = False
    pace: float = 0.0
    """Seconds from one piece to the next."""
    window: int = 256 * 1024
    slowed: list[float] = attrs.Factory(list)
    """The slowest latency of each overlapping slow time; the last one applies."""

    def latency(self) -> float:
        """Seconds until bytes that leave now arrive."""
        return self.rng.uniform(self.fastest, self.slowed[-1] if self.slowed else self.slowest)

    def piece(self) -> int:
        """The most bytes that arrive together."""
        if self.trickle:
            return 1 + self.rng.randrange(8)
        return 1 + self.rng.randrange(2000) if self.rng.random() < self.fragmented else 64 * 1024


@attrs.define(eq=False)
class Link:
    """One connection between the producer and a port."""

    port: int
    client: MemoryTransport
    server: MemoryTransport

    @property
    def to_broker(self) -> Flow:
        """The bytes of the producer."""
        return self.client.out

    @property
    def to_client(self) -> Flow:
        """The bytes of the broker."""
        return self.server.out


@attrs.define
class Reach:
    """The obstacles on the way to a port."""

    swallows: bool = False
    """Packets that open a connection are lost."""
    error: int = 0
    """Connecting fails with this errno."""
    to_broker_held: bool = False
    to_client_held: bool = False


class Network:
    """All connections of one simulation."""

    def __init__(self, loop: SimulatedLoop, rng: random.Random) -> None:
        self.loop = loop
        self.rng = rng
        self.conditions = Conditions(rng)
        self.names: dict[str, list[str] | OSError | None] = {}
        """The address of a host name; None: the name server does not answer."""
        self.alias: dict[str, str] = {}
        """An address that leads to the listener of another one."""
        self.lookups: list[str] = []
        self.dials: list[tuple[float, str, int]] = []
        self._listening: dict[tuple[str, int], Listener] = {}
        self._all_links: list[Link] = []
        self._links: list[Link] = []
        self._reach: dict[int, Reach] = {}
        self._next_port = _FIRST_PORT
        self._armed: dict[int, list[tuple[bool, Cut]]] = {}

    # -- faults

    def reach(self, port: int) -> Reach:
        """The obstacles before this port; change them, then call `apply`."""
        return self._reach.setdefault(port, Reach())

    def links(self, port: int) -> list[Link]:
        """The connections to a port that are open on one side at least."""
        self._links = [link for link in self._links if not (link.client.gone and link.server.gone)]
        return [link for link in self._links if link.port == port]

    def lengths(self, port: int) -> list[int]:
        """The bytes of requests that each connection to a port has carried, closed ones included."""
        return [link.to_broker.delivered for link in self._all_links if link.port == port]

    def hold(self, port: int, *, to_broker: bool = True, to_client: bool = True) -> None:
        """Bytes of these directions do not arrive until `release`, as with a stopped process."""
        reach = self.reach(port)
        reach.to_broker_held |= to_broker
        reach.to_client_held |= to_client
        self._apply(port)

    def release(self, port: int) -> None:
        """Held bytes arrive, and connections can be opened again."""
        self._reach[port] = Reach()
        self._apply(port)

    def isolate(self, port: int) -> None:
        """No byte gets through, and no connection opens: the cable is unplugged."""
        self.reach(port).swallows = True
        self.hold(port)

    def fail_connecting(self, port: int, error: int) -> None:
        """Connecting fails with this errno until `release`."""
        self.reach(port).error = error

    def vanish(self, port: int) -> None:
        """The peer of each present connection disappears silently."""
        for link in self.links(port):
            link.to_broker.vanish()
            link.to_client.vanish()

    def reset(self, port: int) -> None:
        """A device on the way ends all present connections."""
        for link in self.links(port):
            link.client.broken(End.RST)
            link.server.broken(End.RST)

    def busiest(self, port: int) -> Link:
        """The present connection with the most bytes."""
        return max(self.links(port), key=lambda link: link.to_broker.delivered)

    def cut(
        self, port: int, after: int, *, to_broker: bool, end: End = End.RST, link: Link | None = None
    ) -> Cut:
        """End a connection after so many more bytes of one direction: this, or any present one, or else the next."""
        cut = Cut(after, end)
        links = self.links(port) if link is None else [link]
        if links:
            link = self.rng.choice(links)
            flow = link.to_broker if to_broker else link.to_client
            cut.after += flow.arrived
            flow.cut = cut
        else:
            self._armed.setdefault(port, []).append((to_broker, cut))
        return cut

    def _apply(self, port: int) -> None:
        for link in self.links(port):
            self._apply_to(link)

    def _apply_to(self, link: Link) -> None:
        reach = self.reach(link.port)
        for flow, held in (
            (link.to_broker, reach.to_broker_held),
            (link.to_client, reach.to_client_held),
        ):
            (flow.hold if held else flow.release)()

    # -- called by the loop

    async def connect(self, factory: Callable[[], Any], host: str, port: int) -> tuple[MemoryTransport, Any]:
        """The implementation of `loop.create_connection`."""
        self.dials.append((self.loop.time(), host, port))
        await asyncio.sleep(self.conditions.latency())
        reach = self.reach(port)
        if reach.swallows:
            await self.loop.create_future()
        if reach.error:
            raise OSError(reach.error, f"connect: {errno.errorcode[reach.error]}")
        listener = self._listening.get((self.alias.get(host, host), port))
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        return self._establish(listener, factory, port)

    def _establish(
        self, listener: Listener, factory: Callable[[], Any], port: int
    ) -> tuple[MemoryTransport, Any]:
        out, into = Flow(self.loop, self.conditions), Flow(self.loop, self.conditions)
        protocol = factory()
        client = MemoryTransport(self.loop, protocol, out, into, (listener.host, port))
        server = MemoryTransport(self.loop, listener.factory(), into, out, ("127.0.0.1", 50_000))
        out.sender = into.receiver = client
        out.receiver = into.sender = server
        link = Link(port, client, server)
        self._links.append(link)
        self._all_links.append(link)
        for to_broker, cut in self._armed.pop(port, []):
            (link.to_broker if to_broker else link.to_client).cut = cut
        self._apply_to(link)
        client.begin()
        self.loop.call_soon(self._accept, listener, server)
        return client, protocol

    def _accept(self, listener: Listener, server: MemoryTransport) -> None:
        if listener.is_serving():
            server.begin()
        else:
            server.broken(End.RST)

    def listen(self, factory: Callable[[], Any], host: str, port: int) -> Listener:
        """The implementation of `loop.create_server`."""
        if not port:
            port, self._next_port = self._next_port, self._next_port + 1
        if (host, port) in self._listening:
            raise OSError(errno.EADDRINUSE, f"{host}:{port} is in use")
        listener = self._listening[host, port] = Listener(self, factory, host, port)
        return listener

    def deaf(self, listener: Listener) -> None:
        """Remove the listener of this port."""
        self._listening.pop((listener.host, listener.port), None)

    async def look_up(self, host: str, port: int) -> list[tuple[Any, ...]]:
        """In place of the resolver."""
        self.lookups.append(host)
        await asyncio.sleep(self.conditions.latency())
        known = self.names.get(host, socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
        if known is None:
            await self.loop.create_future()
        if isinstance(known, OSError):
            raise known
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, int(port))) for address in known or ()]


class Listener:
    """Stands for an `asyncio.Server` with one socket."""

    def __init__(self, network: Network, factory: Callable[[], Any], host: str, port: int) -> None:
        self._network = network
        self.factory = factory
        self.host = host
        self.port = port
        self._open = True

    @property
    def sockets(self) -> tuple[Listener, ...]:
        """asyncio: the listening sockets; it is its own socket."""
        return (self,)

    def getsockname(self) -> tuple[str, int]:
        """socket: the listening address."""
        return self.host, self.port

    def fileno(self) -> int:
        """socket: there is no descriptor."""
        return -1

    def is_serving(self) -> bool:
        """asyncio: does it accept?"""
        return self._open

    async def start_serving(self) -> None:
        """asyncio: it accepts from the beginning."""

    def close(self) -> None:
        """asyncio: accept no more."""
        self._open = False
        self._network.deaf(self)


class NetworkedLoop(SimulatedLoop):
    """The loop with this network."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.network = Network(self, rng)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], Any],
        host: str,
        port: int,
        *,
        ssl: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
    ) -> tuple[asyncio.Transport, Any]:
        """asyncio: connect, with TLS where a context is given."""
        if ssl is None:
            return await self.network.connect(protocol_factory, host, port)
        protocol, opened = protocol_factory(), self.create_future()
        tls: Any = SSLProtocol(self, protocol, ssl, opened, server_hostname=server_hostname)
        raw, _ = await self.network.connect(lambda: tls, host, port)
        transport: asyncio.Transport = tls._app_transport
        try:
            await opened
        except BaseException:
            raw.close()
            raise
        return transport, protocol

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int, **_options: Any
    ) -> Listener:
        """asyncio: listen."""
        return self.network.listen(protocol_factory, host, port)

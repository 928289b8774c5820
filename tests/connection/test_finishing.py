"""The end of a connection whose written bytes have no answer (acks=0): all of them reach the broker first."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
from typing import Any

import attrs
import pytest

from aioproducer._net.connecting.connection.connection import Connection
from aioproducer._net.connecting.connection.ends import Ending
from aioproducer._net.connecting.dialing import dial
from aioproducer._net.connecting.security import PLAINTEXT
from aioproducer._wire.codec import decode_request, encode_response
from tests.certificates import Authority, Issued
from tests.connection.peer import Peer, Wire, at, framed, versions_answer
from tests.connection.test_tls import CONFIG, trusting

LIMIT = 30.0


@attrs.define
class SlowReader:
    """Reads little until it is released, then counts all bytes up to the end."""

    released: asyncio.Event = attrs.Factory(asyncio.Event)
    over: asyncio.Event = attrs.Factory(asyncio.Event)
    received: int = 0

    async def __call__(self, wire: Wire) -> None:
        await wire.open()
        try:
            await self.released.wait()
            while data := await wire.reader.read(65536):
                self.received += len(data)
        finally:
            self.over.set()
            wire.writer.transport.abort()


@pytest.fixture(params=["plain", "tls"])
async def reader_and_connection(
    request: pytest.FixtureRequest, authority: Authority, broker_identity: Issued
) -> Any:
    """A slow reader, and a connection to it."""
    encrypted = request.param == "tls"
    reader = SlowReader()
    peer = Peer(reader)
    context = broker_identity.context_of_broker() if encrypted else None
    peer._server = await asyncio.start_server(peer._serve, "127.0.0.1", 0, ssl=context)
    port = peer._server.sockets[0].getsockname()[1]
    security = trusting(authority) if encrypted else PLAINTEXT
    yield reader, await dial(at("127.0.0.1", port), CONFIG, security)
    reader.released.set()
    await peer.stop()


def write(connection: Connection, size: int) -> None:
    """A request that no answer is expected to."""
    connection.write_request(connection.next_correlation_id(), (bytes(size - 4),), None, LIMIT)


@pytest.mark.parametrize("size", [40_000, 100_000, 4_000_000])
async def test_all_bytes_arrive_before_the_end(
    reader_and_connection: tuple[SlowReader, Connection], size: int
) -> None:
    """Over TLS too, where the transport says that nothing is left while its lower buffers are full."""
    reader, connection = reader_and_connection
    write(connection, size)
    finishing = asyncio.ensure_future(connection.departure.finish())
    await asyncio.sleep(0)
    assert not connection.gate.writable()
    reader.released.set()
    async with asyncio.timeout(LIMIT):
        await finishing
        await reader.over.wait()
    assert reader.received == size
    assert connection.ending is Ending.LEFT


async def test_without_such_bytes_there_is_nothing_to_wait_for(
    reader_and_connection: tuple[SlowReader, Connection],
) -> None:
    """The connection ends at once, also if the peer reads nothing."""
    _, connection = reader_and_connection
    with pytest.raises(StopIteration):
        connection.departure.finish().send(None)
    assert connection.ending is Ending.LEFT


async def test_a_finish_that_is_given_up(reader_and_connection: tuple[SlowReader, Connection]) -> None:
    """The time of `close()` is over: the connection ends with the rest of its bytes."""
    _, connection = reader_and_connection
    write(connection, 40_000_000)
    finishing = asyncio.ensure_future(connection.departure.finish())
    await asyncio.sleep(0)
    finishing.cancel()
    connection.close()
    assert connection.closed
    await asyncio.wait([finishing])


class NeverCloses:
    """A broker over TLS that reads all bytes, and never closes its side."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.context = context
        self.received = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        with self.socket, self.context.wrap_socket(self.socket.accept()[0], server_side=True) as peer:
            (length,) = struct.unpack(">i", peer.recv(4))
            header, _ = decode_request(peer.recv(length))
            peer.sendall(
                framed(encode_response(versions_answer(), header.api_version, header.correlation_id))
            )
            while data := peer.recv(65536):
                self.received += len(data)
            self.over.wait(LIMIT)


async def test_over_tls_the_peer_need_not_close_as_well(
    authority: Authority, broker_identity: Issued
) -> None:
    """It has acknowledged every byte: waiting for its close_notify would hold up the next connection for 30 s."""
    broker = NeverCloses(broker_identity.context_of_broker())
    connection = await dial(
        at("127.0.0.1", broker.socket.getsockname()[1]), CONFIG, trusting(authority), setup_timeout=LIMIT
    )
    write(connection, 4_000_000)
    try:
        async with asyncio.timeout(LIMIT / 2):
            await connection.departure.finish()
    finally:
        broker.over.set()
        await asyncio.to_thread(broker.thread.join)
    assert broker.received == 4_000_000
    assert connection.ending is Ending.LEFT

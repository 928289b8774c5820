"""A broker's end of a connection, played by a script of raw bytes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import attrs

from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer._wire.codec import decode_request, encode_response
from aioproducer._wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from aioproducer.errors import KafkaError
from tests.net.support import turns


@attrs.define
class Wire:
    """One accepted connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def read(self) -> bytes:
        """The next request, without its length."""
        (length,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(length)

    def write(self, data: bytes) -> None:
        """Raw bytes."""
        self.writer.write(data)

    def answer(self, correlation_id: int, body: bytes = b"") -> None:
        """A frame with this correlation id."""
        self.write(frame(correlation_id, body))

    def trickle(self, data: bytes, every: float) -> None:
        """A byte at a time, until all are written or the client hangs up."""
        if data and not self.writer.is_closing():
            self.write(data[:1])
            asyncio.get_running_loop().call_later(every, self.trickle, data[1:], every)

    async def open(self) -> None:
        """Answer the question for versions like a broker of today."""
        header, _ = decode_request(await self.read())
        self.write(framed(encode_response(versions_answer(), header.api_version, header.correlation_id)))

    async def until_closed(self) -> None:
        """Read until the client hangs up."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


Script: TypeAlias = Callable[[Wire], Awaitable[None]]


@attrs.define
class Peer:
    """A listening socket; each connection is served by the script, then closed."""

    script: Script
    port: int = 0
    accepted: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = attrs.field(factory=set)
    _failures: list[BaseException] = attrs.field(factory=list)

    @classmethod
    async def start(cls, script: Script, host: str = "127.0.0.1", port: int = 0) -> Peer:
        """Listen on the loopback, on a free port unless one is given."""
        peer = cls(script)
        peer._server = await asyncio.start_server(peer._serve, host, port)
        peer.port = peer._server.sockets[0].getsockname()[1]
        return peer

    async def stop(self) -> None:
        """Stop listening and end every script; raises what went wrong in one."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
        if self._failures:
            raise self._failures[0]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self.script(Wire(reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except Exception as error:  # noqa: BLE001  whatever it is, the test must fail
            self._failures.append(error)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()
            self._tasks.discard(task)


Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on the loopback, and its port. At the end no connection is left."""
    tasks: set[asyncio.Task[None]] = set()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await serve(reader, writer)
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            tasks.discard(task)

    server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        # A task that is cancelled before its first step would leave its connection open.
        await turns(5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


@attrs.define(eq=False)
class Recorder:
    """A handler that remembers what it was told."""

    loop: asyncio.AbstractEventLoop = attrs.field(factory=asyncio.get_running_loop)
    answers: list[bytes] = attrs.field(factory=list)
    failures: list[tuple[KafkaError, bool]] = attrs.field(factory=list)
    told: asyncio.Event = attrs.field(factory=asyncio.Event)

    def answered(self, frame: memoryview) -> None:
        """Keep a copy."""
        self.answers.append(bytes(frame))
        self.told.set()

    def failed(self, error: KafkaError, *, written: bool) -> None:
        """Keep the error."""
        self.failures.append((error, written))
        self.told.set()

    @property
    def error(self) -> str:
        """The text of the only failure."""
        ((error, _),) = self.failures
        return str(error)


def at(host: str, port: int, node_id: int | None = None) -> BrokerEndpoint:
    """The endpoint of a bootstrap server, or of a node that the cluster advertises."""
    if node_id is None:
        return BrokerEndpoint.bootstrap(host, port)
    return BrokerEndpoint.advertised(host, port, node_id)


def framed(body: bytes) -> bytes:
    """Behind its length."""
    return struct.pack(">i", len(body)) + body


def frame(correlation_id: int, body: bytes = b"") -> bytes:
    """An answer as it goes over the wire."""
    return framed(struct.pack(">i", correlation_id) + body)


def versions_answer(
    keys: Sequence[tuple[int, int, int]] = ((0, 0, 13), (3, 0, 13), (18, 0, 4), (22, 0, 6)), **fields: Any
) -> ApiVersionsResponse:
    """The versions that a broker lists for each API: (API key, lowest, highest)."""
    return ApiVersionsResponse(api_keys=[ApiVersion(*key) for key in keys], **fields)

"""A network partition between the producer and one broker, which the rest of the cluster does not notice."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Self

import attrs
import pytest

from tests.kafka.transactions.scissors import direct

_CHUNK = 65_536


@attrs.define(eq=False)
class Gate:
    """Forwards the bytes of this loop to a broker's port; when shut, bytes and new connections wait in it."""

    port: int
    _open: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _server: asyncio.Server = attrs.field(init=False)
    _ways: set[asyncio.Task[None]] = attrs.field(factory=set, init=False)

    async def __aenter__(self) -> Self:
        self._open.set()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for way in self._ways:
            way.cancel()
        await asyncio.gather(*self._ways, return_exceptions=True)

    def intercept_dialing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on this loop connects to the gate in place of the broker."""
        loop = asyncio.get_running_loop()
        connect, own = loop.create_connection, self._server.sockets[0].getsockname()[1]

        async def redirected(factory: Any, host: str, port: int, **options: Any) -> Any:
            return await connect(factory, host, own if port == self.port else port, **options)

        monkeypatch.setattr(loop, "create_connection", redirected)

    def shut(self) -> None:
        """Let nothing through in either direction; connections stay open."""
        self._open.clear()

    def open(self) -> None:
        """Let the waiting bytes through, and all that follow."""
        self._open.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        way = asyncio.create_task(self._join(reader, writer))
        self._ways.add(way)
        way.add_done_callback(self._ways.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        # The loop's own open_connection would lead back to the gate.
        transport_reader, upstream = await direct(self.port)
        ends = [self._forward(reader, upstream), self._forward(transport_reader, writer)]
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(*ends)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(_CHUNK):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

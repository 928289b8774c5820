"""Scissors on the way to one broker: they cut a connection at a request of one kind, before or behind it."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import attrs
import pytest

END_TXN = 26


@attrs.define(eq=False)
class Scissors:
    """`async with Scissors(port) as scissors:` this loop connects to them in place of the broker at that port."""

    port: int
    cuts: int = attrs.field(default=0, init=False)
    """The number of cut connections."""
    _left: int = attrs.field(default=0, init=False)
    _api_key: int = attrs.field(default=-1, init=False)
    _behind: bool = attrs.field(default=False, init=False)
    _patch: pytest.MonkeyPatch = attrs.field(factory=pytest.MonkeyPatch, init=False)
    _server: asyncio.Server = attrs.field(init=False)
    _ways: set[asyncio.Task[None]] = attrs.field(factory=set, init=False)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._stand_in()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._patch.undo()
        self._server.close()
        for way in self._ways:
            way.cancel()
        await asyncio.gather(*self._ways, return_exceptions=True)

    def sever(self) -> None:
        """Cut all present connections now."""
        for way in self._ways:
            way.cancel()

    def _stand_in(self) -> None:
        loop = asyncio.get_running_loop()
        connect, own = loop.create_connection, self._server.sockets[0].getsockname()[1]

        async def redirected(factory: Any, host: str, port: int, **options: Any) -> Any:
            return await connect(factory, host, own if port == self.port else port, **options)

        self._patch.setattr(loop, "create_connection", redirected)

    def cut(self, api_key: int, *, behind: bool, times: int = 1) -> None:
        """Cut at the next requests of this kind: before the broker has them, or after its answer."""
        self._api_key, self._behind, self._left = api_key, behind, times

    def heal(self) -> None:
        """Cut no more connections."""
        self._left = 0

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        way = asyncio.create_task(self._join(reader, writer))
        self._ways.add(way)
        way.add_done_callback(self._ways.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker = await direct(self.port)
        lost = asyncio.Event()
        ways = [self._ask(reader, broker, lost), self._answer(broker_reader, writer, lost)]
        tasks = [asyncio.create_task(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in (writer, broker):
                end.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(
        self, reader: asyncio.StreamReader, broker: asyncio.StreamWriter, lost: asyncio.Event
    ) -> None:
        while True:
            frame = await _frame(reader)
            if self._left and int.from_bytes(frame[4:6], "big") == self._api_key:
                self._left -= 1
                self.cuts += 1
                if not self._behind:
                    return
                lost.set()
            broker.write(frame)

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: asyncio.Event
    ) -> None:
        while True:
            frame = await _frame(reader)
            if lost.is_set():
                return
            writer.write(frame)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size, "big"))


async def direct(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection of this loop that bypasses the replaced `create_connection`."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, protocol = await type(loop).create_connection(
        loop, lambda: asyncio.StreamReaderProtocol(reader), "127.0.0.1", port
    )
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

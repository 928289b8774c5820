"""A token endpoint on loopback: HTTPS by asyncio's streams, with answers that a test writes byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs

from tests.certificates import Issued


def http(status: int, body: bytes, *headers: str) -> bytes:
    """An answer with the length of its body."""
    fields = [f"HTTP/1.1 {status} Text", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*fields, "", ""]).encode() + body


def answer(status: int = 200, **fields: Any) -> bytes:
    """An answer with a JSON object."""
    return http(status, json.dumps(fields).encode(), "Content-Type: application/json")


@attrs.define
class TokenServer:
    """Gives its answers one after the other, the last one again and again; None: it reads and answers nothing."""

    answers: list[bytes | None]
    port: int = 0
    requests: list[str] = attrs.field(factory=list)
    asked: asyncio.Event = attrs.field(factory=asyncio.Event)
    keeps_open: bool = False
    pause: float = 0.0
    """Seconds between two bytes of an answer; 0: all at once."""
    _writers: list[asyncio.StreamWriter] = attrs.field(factory=list)

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"https://localhost:{self.port}/oauth2/token?tenant=1"

    @contextlib.asynccontextmanager
    async def running(self, issued: Issued, clients_of: Path | None = None) -> AsyncIterator[TokenServer]:
        """Listen with this certificate; with `clients_of`, clients need a certificate of this authority."""
        context = issued.context_of_broker(clients_of)
        server = await asyncio.start_server(self._serve, "localhost", 0, ssl=context, limit=2**20)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()
            for writer in self._writers:
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with contextlib.suppress(OSError, EOFError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
            self.requests.append(head + (await reader.readexactly(length)).decode())
            self.asked.set()
            found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if found is None:
                return
            for part in struct.unpack(f"{len(found)}c", found) if self.pause else (found,):
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(self.pause)  # the pace of a server that trickles
            if not self.keeps_open:
                writer.close()

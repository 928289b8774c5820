"""The HTTP connections of the embedded registry."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from aioproducer.testing.registry.faults import RegistryFault, RegistryFaults
from aioproducer.testing.registry.routes import RegistryRequest

__all__ = ["Connections"]

_HOST: Final = "127.0.0.1"
_LARGEST: Final = 16 * 1024 * 1024
_HISTORY: Final = 10_000
_MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"

Answering = Callable[[RegistryRequest], tuple[int, Any]]


class Connections:
    """A listening port, and the tasks of its connections."""

    def __init__(self, answering: Answering, faults: RegistryFaults) -> None:
        self._answering = answering
        self._faults = faults
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}
        self.requests: deque[RegistryRequest] = deque(maxlen=_HISTORY)
        self.opened = 0
        self.port = 0

    async def open(self, port: int) -> None:
        """Listen; 0 selects a port, which later calls keep."""
        self._server = await asyncio.start_server(self._connected, _HOST, port, limit=_LARGEST)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Close the port and end all connections."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        tasks = dict(self._tasks)
        for task, writer in tasks.items():
            task.cancel()
            writer.transport.abort()
        if tasks:
            await asyncio.wait(tasks)
        if server is not None:
            await server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a callback of asyncio that is a task
        self._tasks[task] = writer
        self.opened += 1
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, asyncio.CancelledError):
            # The peer has gone, or sent something else, or the registry stops.
            pass
        finally:
            self._tasks.pop(task, None)
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False when the connection ends."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:-2])
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        path, _, query = target.partition("?")
        request = RegistryRequest(method, path, query, headers, body)
        self.requests.append(request)
        fault = self._faults.struck(path)
        status, content = await self._answer(request, fault)
        if fault is not None and fault.cut:
            return False
        further = (
            "" if fault is None or fault.retry_after is None else f"Retry-After: {fault.retry_after}\r\n"
        )
        writer.write(
            f"HTTP/1.1 {status} -\r\nContent-Type: {_MEDIA_TYPE}\r\n{further}"
            f"Content-Length: {len(content)}\r\n\r\n".encode()
            + content
        )
        await writer.drain()
        return headers.get("connection", "").lower() != "close"

    async def _answer(self, request: RegistryRequest, fault: RegistryFault | None) -> tuple[int, bytes]:
        if fault is None:
            status, content = self._answering(request)
            return status, json.dumps(content).encode()
        status, content = 500, {"error_code": 500, "message": "a fault of the embedded registry"}
        is_replaced = fault.cut or fault.status is not None
        if not is_replaced or fault.handled:
            status, content = self._answering(request)
        await fault.delayed()
        if fault.status is not None:
            code = content.get("error_code", fault.status) if isinstance(content, dict) else fault.status
            code = fault.status if code == 500 else code
            status, content = (
                fault.status,
                {"error_code": code, "message": "a fault of the embedded registry"},
            )
        return status, fault.body if fault.body is not None else json.dumps(content).encode()

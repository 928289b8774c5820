"""Many HTTP requests at once, each on a connection of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import attrs


@attrs.frozen
class Answer:
    """The answer of a server."""

    status: int
    body: Any


async def post_all(url: str, bodies: Iterable[bytes]) -> list[Answer]:
    """One POST for each body, all at the same time."""
    return await asyncio.gather(*(_post(url, body) for body in bodies))


async def _post(url: str, body: bytes) -> Answer:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    try:
        head, _, content = (await reader.read()).decode().partition("\r\n\r\n")
    finally:
        writer.close()
        await writer.wait_closed()
    return Answer(int(head.split()[1]), json.loads(content))

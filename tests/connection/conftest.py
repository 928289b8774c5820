"""Every test of a connection runs on asyncio's own loop and on uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import pytest
import uvloop

from aioproducer._net.connecting.connection.connection import Connection
from tests.connection.peer import Peer, Script


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Both kinds of loop call a protocol in different orders."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def listen() -> AsyncIterator[Callable[..., Awaitable[Peer]]]:
    """Start peers that follow a script; they end with the test, and their failures fail it."""
    peers: list[Peer] = []

    async def start(script: Script, host: str = "127.0.0.1", port: int = 0) -> Peer:
        peers.append(await Peer.start(script, host, port))
        return peers[-1]

    yield start
    for peer in peers:
        await peer.stop()


@pytest.fixture
async def connect() -> AsyncIterator[Callable[[Peer], Awaitable[Connection]]]:
    """Connect to a peer, without any opening dialogue."""
    made: list[Connection] = []

    async def start(peer: Peer) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: Connection(f"127.0.0.1:{peer.port}", "tests", loop), "127.0.0.1", peer.port
        )
        made.append(connection)
        return connection

    yield start
    for connection in made:
        connection.close()
    await asyncio.sleep(0)

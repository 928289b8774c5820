"""The protocol at a port where Kafka was expected, found out by asking in each of the likely ones."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import anyio

from aioproducer._state.diagnosing.facts import Peer
from aioproducer.security.tls.certificate import read_certificate

if TYPE_CHECKING:
    from aioproducer._state.diagnosing.facts import Certificate

__all__ = ["peer_at", "presented_certificate"]

# A request that a web server answers at once, in each version.
_HTTP_REQUEST = b"HEAD / HTTP/1.0\r\n\r\n"
# The reasons of OpenSSL for answers in another protocol.
_NO_TLS = (
    "BAD_LENGTH",
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
    "UNEXPECTED_EOF_WHILE_READING",
    # The greeting of a client in place of that of a server: the port sends back what it gets.
    "UNEXPECTED_MESSAGE",
    "UNKNOWN_PROTOCOL",
    "WRONG_VERSION_NUMBER",
)


async def peer_at(address: str, port: int, server_name: str, limit: float) -> Peer:
    """The protocol at this port. Each question has its own connection, and a third of the time."""
    share = limit / 3
    if await _speaks_tls(address, port, server_name, share):
        answer = await _first_bytes(address, port, share, _lax_context(), server_name)
        return Peer.HTTPS if answer is not None and answer.startswith(b"HTTP") else Peer.TLS
    answer = await _first_bytes(address, port, share)
    if answer is None:
        return Peer.SILENT
    if answer.startswith(b"HTTP"):
        return Peer.HTTP
    return Peer.OTHER if answer else Peer.CLOSING


async def presented_certificate(address: str, port: int, server_name: str) -> Certificate | None:
    """The certificate of the broker, also one that is not trusted. Nothing is sent over this connection."""
    with contextlib.suppress(OSError):
        async with _stream(address, port, _lax_context(), server_name) as (_, writer):
            der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            return None if der is None else read_certificate(der)
    return None


async def _speaks_tls(address: str, port: int, server_name: str, limit: float) -> bool:
    with anyio.move_on_after(limit):
        try:
            async with _stream(address, port, _lax_context(), server_name):
                return True
        except ssl.SSLError as error:
            return error.reason not in _NO_TLS
        except OSError:
            return False
    return False


async def _first_bytes(
    address: str,
    port: int,
    limit: float,
    context: ssl.SSLContext | None = None,
    server_name: str | None = None,
) -> bytes | None:
    """The beginning of an answer to a request of HTTP; None without an answer in time."""
    with anyio.move_on_after(limit):
        try:
            async with _stream(address, port, context, server_name) as (reader, writer):
                writer.write(_HTTP_REQUEST)
                return await reader.read(64)
        except OSError:
            return b""
    return None


def _lax_context() -> ssl.SSLContext:
    """A context that trusts everything: to look at a peer, never to send anything that matters."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextlib.asynccontextmanager
async def _stream(
    address: str, port: int, context: ssl.SSLContext | None, server_name: str | None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(
        address, port, ssl=context, server_hostname=server_name if context is not None else None
    )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()

"""One POST over TLS by asyncio's streams. The answer is at most 64 KiB, and redirects are not followed."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING

import attrs

from aioproducer._net.connecting.dialing import addresses_in, look_up
from aioproducer.security.https import LARGEST, Answer, head_in, size_of_chunk

if TYPE_CHECKING:
    from aioproducer.secret import Secret
    from aioproducer.security.https import Head, HttpsUrl

__all__ = ["HttpsError", "Route", "answer_of"]

_END_OF_HEAD = b"\r\n\r\n"
_CONTINUE = range(100, 200)


class HttpsError(Exception):
    """There is no answer. `is_final`: the next attempt fails as well."""

    def __init__(self, why: str, *, is_final: bool = False) -> None:
        super().__init__(why)
        self.is_final = is_final


@attrs.define
class Route:
    """The address of a server that accepted the newest connection: it is tried first."""

    address: str | None = None


async def answer_of(
    url: HttpsUrl,
    request: Secret,
    context: ssl.SSLContext,
    route: Route,
    *,
    connect_within: float,
    answer_within: float,
) -> Answer:
    """The answer to a request; HttpsError if there is none."""
    why, is_final = "", False
    try:
        reader, writer = await _connected(url, context, route, connect_within)
        try:
            async with asyncio.timeout(answer_within):
                writer.write(request.reveal().encode())
                return await _answer(reader)
        finally:
            # Without an exchange about the end, which a server could leave unanswered.
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    except TimeoutError:
        why = "gave no answer in time"
    except ssl.SSLCertVerificationError as error:
        why, is_final = f"has a certificate that cannot be verified: {error.verify_message}", True
    except OSError as error:  # ssl.SSLError too
        why = f"cannot be reached: {error.strerror or type(error).__name__}"
    except EOFError:
        why = "closed the connection without an answer"
    except asyncio.LimitOverrunError:
        why, is_final = f"gave an answer with a head of more than {LARGEST} bytes", True
    except ValueError as error:
        why, is_final = f"gave an answer that cannot be read: {error}", True
    # Outside of the handlers: the former error may have a part of the answer.
    raise HttpsError(why, is_final=is_final)


async def _connected(
    url: HttpsUrl, context: ssl.SSLContext, route: Route, limit: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the first address that accepts one. Each has its share of the time: one may not answer at all."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limit
    async with asyncio.timeout(limit):
        found = await look_up(url.host, url.port)
    addresses = addresses_in(found)
    addresses.sort(key=lambda address: address != route.address)
    unverified: ssl.SSLCertVerificationError | None = None
    for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
        try:
            async with asyncio.timeout((end - loop.time()) / left):
                streams = await asyncio.open_connection(
                    address, url.port, ssl=context, server_hostname=url.host.removesuffix("."), limit=LARGEST
                )
        except ssl.SSLCertVerificationError as error:
            unverified = error
        except OSError:  # TimeoutError too
            if left == 1 and unverified is None:
                raise
        else:
            route.address = address
            return streams
    # A certificate says more than an address that cannot be reached.
    raise unverified or OSError("its host name has no address")


async def _answer(reader: asyncio.StreamReader) -> Answer:
    head = head_in(await reader.readuntil(_END_OF_HEAD))
    while head.status in _CONTINUE:
        await _let_others_work()
        head = head_in(await reader.readuntil(_END_OF_HEAD))
    return Answer(head.status, await _body(reader, head))


async def _body(reader: asyncio.StreamReader, head: Head) -> bytes:
    if head.is_chunked:
        return await _chunks(reader)
    if head.length is not None:
        return await reader.readexactly(head.length)
    body = bytearray()
    while part := await reader.read(LARGEST):
        body += part
        _require_size(len(body))
    return bytes(body)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := size_of_chunk(await reader.readuntil(b"\r\n")):
        _require_size(len(body) + size)
        body += await reader.readexactly(size)
        await reader.readexactly(2)  # the end of its line
        await _let_others_work()
    return bytes(body)


async def _let_others_work() -> None:
    """The loop is held as long as the reader has bytes, which may be thousands of small parts."""
    await asyncio.sleep(0)


def _require_size(size: int) -> None:
    if size > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")

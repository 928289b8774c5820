"""Requests of the control plane: written, awaited and decoded in one call."""

from __future__ import annotations

import asyncio
import gc

import pytest

from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._state.connecting.opening import Opened, negotiated
from aioproducer._wire.codec import decode_request, encode_response
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataResponse
from aioproducer.errors import BrokerUnavailableError, ProtocolError
from tests.connection.peer import Wire, framed, versions_answer
from tests.connection.test_pairing import Connect, Listen

METADATA = MetadataRequest(topics=None)


async def serve_metadata(wire: Wire) -> None:
    """Answer every Metadata request with a cluster id that tells version and client id."""
    while True:
        header, _ = decode_request(await wire.read())
        name = f"{header.api_version} {header.client_id}"
        answer = encode_response(MetadataResponse(cluster_id=name), header.api_version, header.correlation_id)
        wire.write(framed(answer))


async def test_request_uses_the_version_that_was_agreed_on(listen: Listen, connect: Connect) -> None:
    """The version is the highest common one, unless the caller says otherwise."""
    connection = await connect(await listen(serve_metadata))
    connection.opened(Opened(negotiated("b", versions_answer([(0, 0, 13), (3, 0, 9)]))))
    answer = await answer_to(connection, METADATA, MetadataResponse, timeout=30)
    assert answer.cluster_id == "9 tests"
    answer = await answer_to(connection, METADATA, MetadataResponse, timeout=30, version=5)
    assert answer.cluster_id == "5 tests"


async def test_cancelled_waiter_does_not_break_the_pairing(listen: Listen, connect: Connect) -> None:
    """The answer to a request without a waiting task is read and dropped; the next answer is paired correctly."""
    go = asyncio.Event()

    async def script(wire: Wire) -> None:
        await go.wait()
        await serve_metadata(wire)

    connection = await connect(await listen(script))
    first = asyncio.ensure_future(answer_to(connection, METADATA, MetadataResponse, timeout=30, version=5))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    assert connection.in_flight == 1
    go.set()
    answer = await answer_to(connection, METADATA, MetadataResponse, timeout=30, version=6)
    assert answer.cluster_id == "6 tests"
    assert first.cancelled()


@pytest.mark.parametrize("body", [b"", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff" * 4])
async def test_answer_that_cannot_be_decoded_ends_the_connection(
    listen: Listen, connect: Connect, body: bytes
) -> None:
    """Garbage is a ProtocolError that names the broker, for the caller and as the connection's reason (B04, B05)."""

    async def script(wire: Wire) -> None:
        await wire.read()
        wire.answer(0, body)
        await wire.until_closed()

    peer = await listen(script)
    connection = await connect(peer)
    with pytest.raises(ProtocolError, match=f"127.0.0.1:{peer.port}"):
        await answer_to(connection, METADATA, MetadataResponse, timeout=30, version=5)
    assert connection.closed
    assert isinstance(connection.close_reason, ProtocolError)


async def test_request_fails_with_the_connection(listen: Listen, connect: Connect) -> None:
    """A request on a connection that ends raises why, and so does every later one."""

    async def script(wire: Wire) -> None:
        await wire.read()

    connection = await connect(await listen(script))
    for _ in range(2):
        with pytest.raises(BrokerUnavailableError, match="the broker closed the connection"):
            await answer_to(connection, METADATA, MetadataResponse, timeout=30, version=5)


async def test_request_times_out(listen: Listen, connect: Connect) -> None:
    """No answer within `timeout` raises BrokerUnavailableError, caused by a TimeoutError."""
    connection = await connect(await listen(Wire.until_closed))
    with pytest.raises(BrokerUnavailableError, match="request timed out") as raised:
        await answer_to(connection, METADATA, MetadataResponse, timeout=0.01, version=5)
    assert isinstance(raised.value.__cause__, TimeoutError)


async def test_closing_closes_the_socket_at_once(listen: Listen, connect: Connect) -> None:
    """The peer sees the end though requests wait, the collector is off and the connection is still referenced (I9)."""
    seen = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.until_closed()
        seen.set()

    connection = await connect(await listen(script))
    waiting = asyncio.ensure_future(answer_to(connection, METADATA, MetadataResponse, timeout=30, version=5))
    await asyncio.sleep(0)
    gc.disable()
    try:
        connection.close()
        await seen.wait()
    finally:
        gc.enable()
    assert connection.transport is None
    with pytest.raises(BrokerUnavailableError, match="closed by this producer"):
        await waiting


async def test_errors_keep_no_frames_alive(listen: Listen, connect: Connect) -> None:
    """The reason of a connection has no traceback, however often it was raised: frames hold buffers and tasks."""

    async def script(wire: Wire) -> None:
        await wire.read()
        wire.answer(0, b"garbage")
        await wire.until_closed()

    connection = await connect(await listen(script))
    for _ in range(2):
        with pytest.raises(ProtocolError):
            await answer_to(connection, METADATA, MetadataResponse, timeout=30, version=5)
    assert connection.close_reason is not None
    assert connection.close_reason.__traceback__ is None

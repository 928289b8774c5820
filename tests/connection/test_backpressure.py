"""Writing to a peer that does not read."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer._net.connecting.connection.connection import Connection
from aioproducer.errors import BrokerUnavailableError
from tests.connection.peer import Recorder, Wire, frame
from tests.connection.test_pairing import Connect, Listen

REQUEST = bytes(1_000_000)


def fill(connection: Connection) -> list[Recorder]:
    """Write until the transport wants no more."""
    recorders = []
    while connection.gate.writable():
        recorders.append(Recorder())
        connection.write_request(connection.next_correlation_id(), (REQUEST,), recorders[-1], 30)
    return recorders


async def test_peer_that_does_not_read_stops_the_writer(listen: Listen, connect: Connect) -> None:
    """With its window closed the transport holds at most one request more, and `drained` waits (A12)."""
    read = asyncio.Event()
    recorders: list[Recorder] = []

    async def script(wire: Wire) -> None:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await read.wait()
        wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for number in range(len(recorders)):
            assert len(await wire.read()) == len(REQUEST)
            wire.answer(number)
        await wire.until_closed()

    connection = await connect(await listen(script))
    recorders += fill(connection)
    transport = connection.transport
    assert transport is not None
    assert transport.get_write_buffer_size() <= 64 * 1024 + len(REQUEST) + 4
    waiter = asyncio.ensure_future(connection.gate.drained())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiter.done()
    read.set()
    await waiter
    assert connection.gate.writable()
    await recorders[-1].told.wait()
    assert all(len(recorder.answers) == 1 for recorder in recorders)


async def test_drained_is_done_at_once_when_there_is_room(listen: Listen, connect: Connect) -> None:
    """Waiting for room that is there does not suspend."""
    connection = await connect(await listen(Wire.until_closed))
    with pytest.raises(StopIteration):
        connection.gate.drained().send(None)


async def test_drained_raises_when_the_connection_ends(listen: Listen, connect: Connect) -> None:
    """The end wakes a task that waits for room, with its reason; a later task gets an error of its own."""

    async def script(wire: Wire) -> None:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await stopped.wait()

    stopped = asyncio.Event()
    connection = await connect(await listen(script))
    fill(connection)
    waiters = [asyncio.ensure_future(connection.gate.drained()) for _ in range(2)]
    await asyncio.sleep(0)
    connection.close(BrokerUnavailableError("enough"))
    errors = [*(await asyncio.gather(*waiters, return_exceptions=True))]
    with pytest.raises(BrokerUnavailableError, match="enough"):
        await connection.gate.drained()
    assert [str(error) for error in errors] == ["enough", "enough"]
    assert errors[0] is not errors[1]
    assert not connection.gate.writable()
    stopped.set()


async def test_cancelled_waiter_for_room_harms_nobody(listen: Listen, connect: Connect) -> None:
    """Of two that wait, one is cancelled; the other is woken."""
    read = asyncio.Event()

    async def script(wire: Wire) -> None:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await read.wait()
        wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await wire.until_closed()

    connection = await connect(await listen(script))
    fill(connection)
    cancelled, other = (asyncio.ensure_future(connection.gate.drained()) for _ in range(2))
    await asyncio.sleep(0)
    cancelled.cancel()
    read.set()
    await other
    assert cancelled.cancelled()


async def test_answers_arrive_while_the_writer_waits(listen: Listen, connect: Connect) -> None:
    """A full transport does not keep answers from being read."""

    async def script(wire: Wire) -> None:
        await wire.read()
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        wire.write(frame(0))
        await stopped.wait()

    stopped = asyncio.Event()
    connection = await connect(await listen(script))
    recorders = fill(connection)
    while connection.in_flight == len(recorders):
        await recorders[0].told.wait()
        recorders += fill(connection)
    assert recorders[0].answers == [b"\0\0\0\0"]
    stopped.set()


async def test_handed_over_bytes_are_not_copied_into_ours(listen: Listen, connect: Connect) -> None:
    """The connection keeps no reference to a request's parts once the transport has sent them (CVE-2026-35554)."""

    async def script(wire: Wire) -> None:
        await wire.read()
        wire.answer(0)
        await wire.until_closed()

    connection = await connect(await listen(script))
    part = bytearray(b"request")
    recorder = Recorder()
    connection.write_request(connection.next_correlation_id(), (part,), recorder, 30)
    await recorder.told.wait()
    part.append(0)  # BufferError while anything exports its buffer

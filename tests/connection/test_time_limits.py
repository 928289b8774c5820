"""Requests that are not answered in time, and answers that a held-up loop has not seen yet."""

from __future__ import annotations

import asyncio
import math
import socket
import threading
import time

import pytest

from aioproducer._net.connecting.connection.connection import Connection
from aioproducer.errors import BrokerUnavailableError
from tests.connection.peer import Recorder, Wire, frame
from tests.connection.test_pairing import Connect, Listen, ask, closed


async def test_request_without_an_answer_ends_the_connection(listen: Listen, connect: Connect) -> None:
    """The overdue request hears that it timed out, the others that the connection was closed (A04, semantics 5)."""
    connection = await connect(await listen(Wire.until_closed))
    late = ask(connection, timeout=0.05)
    other = ask(connection, timeout=30)
    await closed(connection)
    assert "request timed out" in late.error
    assert "no answer within 0.05 s" in late.error
    assert isinstance(late.failures[0][0].cause, TimeoutError)
    assert "closed because a request timed out" in other.error
    assert other.failures[0][0].cause is None
    assert late.failures[0][1]
    assert other.failures[0][1]


async def test_shorter_limit_of_a_later_request_counts(listen: Listen, connect: Connect) -> None:
    """The earliest deadline is judged, also when it is not that of the oldest request."""
    connection = await connect(await listen(Wire.until_closed))
    other = ask(connection, timeout=30)
    late = ask(connection, timeout=0.02)
    await closed(connection)
    assert "request timed out" in late.error
    assert "closed because a request timed out" in other.error


async def test_answered_requests_are_not_timed_out(listen: Listen, connect: Connect) -> None:
    """The one timer wakes for a request that was answered, and goes on to the next deadline."""
    answered = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.read()
        wire.answer(0)
        await wire.read()
        await answered.wait()
        wire.answer(1)
        await wire.until_closed()

    connection = await connect(await listen(script))
    loop = asyncio.get_running_loop()
    first = ask(connection, timeout=0.03)
    await first.told.wait()
    second = ask(connection, timeout=30)
    loop.call_later(0.06, answered.set)
    await second.told.wait()
    assert (first.failures, second.failures) == ([], [])
    assert not connection.closed


async def test_trickled_bytes_do_not_buy_time(listen: Listen, connect: Connect) -> None:
    """The limit counts from the hand-over, whatever arrives in between (A13, S25)."""

    async def script(wire: Wire) -> None:
        await wire.read()
        wire.trickle(b"\0\0\x01\0" + bytes(256), every=0.02)
        await wire.until_closed()

    connection = await connect(await listen(script))
    loop = asyncio.get_running_loop()
    start = loop.time()
    recorder = ask(connection, timeout=0.08)
    await recorder.told.wait()
    assert 0.07 < loop.time() - start < 3
    assert "request timed out" in recorder.error


@pytest.mark.parametrize("size", [10, 400_000])
async def test_answers_that_arrived_during_a_stall_come_before_the_timeout(size: int) -> None:
    """A loop that was blocked beyond the limit still delivers what the kernel has: no time-out (F01)."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as server:
        _, connection = await loop.create_connection(
            lambda: Connection("b", None, loop), "127.0.0.1", server.getsockname()[1]
        )
        peer, _ = server.accept()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2_000_000)
        recorders = [ask(connection, timeout=0.05) for _ in range(3)]
        sending = threading.Thread(
            target=lambda: peer.sendall(b"".join(frame(n, bytes(size)) for n in range(3)))
        )
        sending.start()
        time.sleep(0.2)  # noqa: ASYNC251  the stall
        await recorders[-1].told.wait()
        sending.join()
        assert [recorder.failures for recorder in recorders] == [[], [], []]
        assert not connection.closed
        connection.close()
        peer.close()
    await asyncio.sleep(0)


async def test_stall_without_an_answer_is_a_timeout(listen: Listen, connect: Connect) -> None:
    """After a stall with nothing in the kernel the request is overdue within a few turns of the loop."""
    connection = await connect(await listen(Wire.until_closed))
    recorder = ask(connection, timeout=0.02)
    time.sleep(0.05)  # noqa: ASYNC251  the stall
    for _ in range(10):
        await asyncio.sleep(0)
        if recorder.failures:
            break
    assert "request timed out" in recorder.error


async def test_peer_that_floods_cannot_put_off_the_judgement() -> None:
    """A stream of bytes without end, of an answer that never ends, is given a bounded number of turns (S25)."""

    class Endless(asyncio.Transport):
        def write(self, data: object) -> None:
            pass

        def writelines(self, list_of_data: object) -> None:
            pass

        def is_closing(self) -> bool:
            return False

        def abort(self) -> None:
            pass

    loop = asyncio.get_running_loop()
    connection = Connection("b", None, loop)
    connection.connection_made(Endless())
    recorder = Recorder()
    connection.write_request(connection.next_correlation_id(), (b"?",), recorder, 0)
    connection.get_buffer(-1)[:8] = b"\0\x07\xff\xff\0\0\0\0"
    connection.buffer_updated(8)
    turns = 0
    while not recorder.failures:
        turns += 1
        connection.get_buffer(-1)[:1] = b"x"
        connection.buffer_updated(1)
        await asyncio.sleep(0)
    assert 10 < turns < 1000


async def test_no_timer_is_left(listen: Listen, connect: Connect) -> None:
    """A closed connection has no timer running, nor has one that waits without a limit (I9)."""
    connection = await connect(await listen(Wire.until_closed))
    ask(connection, timeout=math.inf)
    timers = [connection._alarm._timer]
    ask(connection, timeout=30)
    timers.append(connection._alarm._timer)
    connection.close()
    assert timers[0] is None
    assert timers[1] is not None
    assert timers[1].cancelled()


async def test_muting_only_records_the_time(listen: Listen, connect: Connect) -> None:
    """`mute` never shortens an earlier one (KIP-219)."""
    loop = asyncio.get_running_loop()
    connection = await connect(await listen(Wire.until_closed))
    assert connection.muted_until < loop.time()
    connection.mute(10)
    until = connection.muted_until
    assert loop.time() + 9 < until <= loop.time() + 10
    connection.mute(1)
    assert connection.muted_until == until
    assert connection.gate.writable()


async def test_last_used_moves_with_requests_and_answers(listen: Listen, connect: Connect) -> None:
    """The time of the last request or answer is known, for the closing of idle connections."""

    async def script(wire: Wire) -> None:
        await wire.read()
        wire.answer(0)
        await wire.until_closed()

    connection = await connect(await listen(script))
    long_ago = connection.last_used = -1.0
    recorder = ask(connection)
    assert connection.last_used > long_ago
    connection.last_used = long_ago
    await recorder.told.wait()
    assert connection.last_used > long_ago


async def test_error_of_an_overdue_request_is_retriable(listen: Listen, connect: Connect) -> None:
    """Timing out is a BrokerUnavailableError, so that the sender may try again."""
    connection = await connect(await listen(Wire.until_closed))
    recorder = ask(connection, timeout=0.01)
    await recorder.told.wait()
    error = recorder.failures[0][0]
    assert isinstance(error, BrokerUnavailableError)
    assert error.retriable

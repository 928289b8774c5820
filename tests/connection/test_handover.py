"""The bytes that a transport gets, and the end of a transport without its loop."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import traceback
import warnings
from collections.abc import Iterable

import pytest

from aioproducer._net.connecting.connection import handover
from aioproducer._net.connecting.connection.connection import Connection
from aioproducer._net.connecting.connection.handover import hand_over
from aioproducer.errors import BrokerUnavailableError
from tests.connection.peer import Recorder


class Sink(asyncio.Transport):
    """Remembers the pieces and whether it was aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.pieces.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.pieces += map(bytes, list_of_data)

    def abort(self) -> None:
        self.aborted = True


class Broken(Sink):
    """Fails at each write."""

    def is_closing(self) -> bool:
        return False

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        raise RuntimeError("broken")

    def write(self, data: bytes | bytearray | memoryview) -> None:
        raise RuntimeError("broken")


async def test_failed_write_is_logged_without_the_bytes(caplog: pytest.LogCaptureFixture) -> None:
    """Some handlers show the variables of each frame: no frame of the error holds the request (S17, S18)."""
    connection = Connection("b", None, asyncio.get_running_loop())
    connection.connection_made(Broken())
    connection.write_request(connection.next_correlation_id(), (b"canary-7",), Recorder(), 30)
    (record,) = (one for one in caplog.records if one.levelno >= logging.ERROR)
    assert record.exc_info is not None
    assert record.exc_info[1] is not None
    shown = traceback.TracebackException.from_exception(record.exc_info[1], capture_locals=True)
    assert "".join(shown.format()) == "RuntimeError: broken\n"


class Closing(Sink):
    """Its end was noticed, and comes in the loop's next turn."""

    def is_closing(self) -> bool:
        return True


async def test_connection_whose_end_comes_takes_no_request() -> None:
    """The first refused one shuts it until the loop has reported the end: a sender that tries again would hold the loop."""
    connection = Connection("b", None, asyncio.get_running_loop())
    connection.connection_made(Closing())
    recorder = Recorder()
    connection.write_request(connection.next_correlation_id(), (b"?",), recorder, 30)
    assert [written for _, written in recorder.failures] == [False]
    assert not connection.gate.writable()
    waiting = asyncio.ensure_future(connection.gate.drained())
    await asyncio.sleep(0)
    assert not waiting.done()
    connection.connection_lost(ConnectionResetError("reset"))
    with pytest.raises(BrokerUnavailableError, match="reset"):
        await waiting


@pytest.mark.parametrize("unbounded", [False, True])
def test_bytes_are_the_same_whichever_way_they_are_written(
    monkeypatch: pytest.MonkeyPatch, unbounded: bool
) -> None:
    """Where `writelines` never pauses (CVE-2024-12254) one joined piece is written instead, with the same bytes."""
    monkeypatch.setattr(handover, "_WRITELINES_IS_UNBOUNDED", unbounded)
    sink = Sink()
    hand_over(sink, (b"head", memoryview(b"batch"), bytearray(b"tail")))
    assert b"".join(sink.pieces) == b"\x00\x00\x00\x0dheadbatchtail"
    assert len(sink.pieces) == (1 if unbounded else 4)


def test_no_empty_piece_is_written() -> None:
    """An empty last piece would keep asyncio's `writelines` from ever being done (gh-155888)."""
    sink = Sink()
    hand_over(sink, (b"", b"request", memoryview(b""), b""))
    assert all(sink.pieces)
    assert b"".join(sink.pieces) == b"\x00\x00\x00\x07request"


def test_transport_that_comes_after_the_end_is_hung_up() -> None:
    """A connection that was closed while its transport was being made does not keep it."""
    loop = asyncio.new_event_loop()
    connection = Connection("b", None, loop)
    connection.close()
    sink = Sink()
    connection.connection_made(sink)
    assert sink.aborted
    loop.close()


def test_closing_without_a_loop_tells_the_handlers() -> None:
    """After its loop was closed, a connection can still be closed; the finalizer frees the socket, with a warning (F07)."""
    loop = asyncio.new_event_loop()
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        _, connection = loop.run_until_complete(
            loop.create_connection(lambda: Connection("b", None, loop), host, port)
        )
        peer, _ = server.accept()
        peer.settimeout(5)
        recorder = Recorder(loop)
        connection.write_request(connection.next_correlation_id(), (b"?",), recorder, 30)
        loop.close()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            connection.close()
            gc.collect()
        assert any("unclosed transport" in str(warning.message) for warning in caught)
        assert "closed by this producer" in recorder.error
        assert peer.recv(100) == b"\x00\x00\x00\x01?"
        assert peer.recv(100) == b""
        peer.close()

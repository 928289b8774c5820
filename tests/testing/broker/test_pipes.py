"""A connection in memory behaves as a transport over a socket: order, flow control, and end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer.testing.broker.pipes import HIGH_WATER, PipeEnd


class Side(asyncio.Protocol):
    """A protocol that notes the calls of its transport."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.events.append(data)

    def eof_received(self) -> None:
        self.events.append("eof")

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append(("lost", exc))


class BufferedSide(asyncio.BufferedProtocol):
    """A protocol that takes four bytes at a time."""

    def __init__(self) -> None:
        self.buffer = bytearray(4)
        self.events: list[bytes] = []

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.events.append(bytes(self.buffer[:nbytes]))


def pipe(near: asyncio.BaseProtocol, far: asyncio.BaseProtocol) -> tuple[PipeEnd, PipeEnd]:
    """Two connected ends."""
    loop = asyncio.get_running_loop()
    ends = PipeEnd(loop, near), PipeEnd(loop, far)
    ends[0].peer, ends[1].peer = ends[1], ends[0]
    for end in ends:
        end.connect()
    return ends


async def turns(count: int = 5) -> None:
    """Let the loop run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_bytes_arrive_in_order_and_later() -> None:
    """write() delivers nothing during the call; all bytes written in one turn of the loop arrive together."""
    near, far = Side(), Side()
    end, _ = pipe(near, far)
    end.write(b"1")
    end.writelines([b"2", b"3"])
    assert far.events == ["made"]
    await turns()
    assert far.events == ["made", b"123"]


async def test_a_protocol_is_given_bytes_one_call_after_the_other() -> None:
    """Bytes that arrive during a call of the protocol wait for the end of that call."""

    class Impatient(Side):
        def data_received(self, data: bytes) -> None:
            if data == b"1":
                far.write(b"2")
                assert not near.deliver()
            super().data_received(data)

    reader = Impatient()
    near, far = pipe(reader, Side())
    far.write(b"1")
    await turns()
    assert reader.events == ["made", b"1", b"2"]


async def test_a_buffered_protocol_takes_what_it_has_room_for() -> None:
    """The rest comes directly after it."""
    far = BufferedSide()
    end, _ = pipe(Side(), far)
    end.write(b"0123456789")
    await turns()
    assert far.events == [b"0123", b"4567", b"89"]


async def test_whoever_writes_too_much_is_paused() -> None:
    """A writer over the limit is paused until the other end reads again."""
    near, far = Side(), Side()
    end, other = pipe(near, far)
    other.pause_reading()
    end.write(bytes(HIGH_WATER))
    assert near.events == ["made"]
    end.write(b"1")
    await turns()
    assert (near.events, far.events) == (["made", "pause"], ["made"])
    assert (end.get_write_buffer_size(), other.is_reading()) == (HIGH_WATER + 1, False)
    other.resume_reading()
    await turns()
    assert near.events == ["made", "pause", "resume"]
    assert end.get_write_buffer_size() == 0


async def test_a_lower_limit_counts_at_once() -> None:
    """A connection sets the limit in this way before it closes."""
    near = Side()
    end, _ = pipe(near, Side())
    end.write(b"1")
    end.set_write_buffer_limits(high=0)
    assert near.events == ["made", "pause"]
    await turns()
    assert near.events == ["made", "pause", "resume"]


@pytest.mark.parametrize("leave", [PipeEnd.close, PipeEnd.abort], ids=["close", "abort"])
async def test_what_was_written_comes_before_the_end(leave: Callable[[PipeEnd], None]) -> None:
    """Both ends get connection_lost() once, and later writes are dropped."""
    near, far = Side(), Side()
    end, other = pipe(near, far)
    end.write(b"1")
    leave(end)
    leave(end)
    end.write(b"2")
    await turns()
    assert near.events == ["made", ("lost", None)]
    assert far.events == ["made", b"1", "eof", ("lost", None)]
    assert (end.is_closing(), other.is_closing()) == (True, True)

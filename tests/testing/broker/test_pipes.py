"""A connection in memory does what a transport over a socket does: order, flow control, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer.testing.broker.pipes import HIGH_WATER, PipeEnd


class Side(asyncio.Protocol):
    """Notes what its transport says."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.said.append("made")

    def data_received(self, data: bytes) -> None:
        self.said.append(data)

    def eof_received(self) -> None:
        self.said.append("eof")

    def pause_writing(self) -> None:
        self.said.append("pause")

    def resume_writing(self) -> None:
        self.said.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.said.append(("lost", exc))


class BufferedSide(asyncio.BufferedProtocol):
    """Takes four bytes at a time."""

    def __init__(self) -> None:
        self.buffer = bytearray(4)
        self.said: list[bytes] = []

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.said.append(bytes(self.buffer[:nbytes]))


def pipe(near: asyncio.BaseProtocol, far: asyncio.BaseProtocol) -> tuple[PipeEnd, PipeEnd]:
    """Two ends that are connected."""
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
    """Nothing arrives inside of write(); what was written before the next turn arrives together."""
    near, far = Side(), Side()
    end, _ = pipe(near, far)
    end.write(b"1")
    end.writelines([b"2", b"3"])
    assert far.said == ["made"]
    await turns()
    assert far.said == ["made", b"123"]


async def test_a_protocol_is_given_bytes_one_call_after_the_other() -> None:
    """What arrives while a protocol is given bytes waits for the end of that call."""

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
    assert reader.said == ["made", b"1", b"2"]


async def test_a_buffered_protocol_takes_what_it_has_room_for() -> None:
    """The rest comes right behind."""
    far = BufferedSide()
    end, _ = pipe(Side(), far)
    end.write(b"0123456789")
    await turns()
    assert far.said == [b"0123", b"4567", b"89"]


async def test_whoever_writes_too_much_is_paused() -> None:
    """Until the other end reads again."""
    near, far = Side(), Side()
    end, other = pipe(near, far)
    other.pause_reading()
    end.write(bytes(HIGH_WATER))
    assert near.said == ["made"]
    end.write(b"1")
    await turns()
    assert (near.said, far.said) == (["made", "pause"], ["made"])
    assert (end.get_write_buffer_size(), other.is_reading()) == (HIGH_WATER + 1, False)
    other.resume_reading()
    await turns()
    assert near.said == ["made", "pause", "resume"]
    assert end.get_write_buffer_size() == 0


async def test_a_lower_limit_counts_at_once() -> None:
    """As a connection sets it that is about to be closed."""
    near = Side()
    end, _ = pipe(near, Side())
    end.write(b"1")
    end.set_write_buffer_limits(high=0)
    assert near.said == ["made", "pause"]
    await turns()
    assert near.said == ["made", "pause", "resume"]


@pytest.mark.parametrize("leave", [PipeEnd.close, PipeEnd.abort], ids=["close", "abort"])
async def test_what_was_written_comes_before_the_end(leave: Callable[[PipeEnd], None]) -> None:
    """Both ends are told once, and nothing is written any more."""
    near, far = Side(), Side()
    end, other = pipe(near, far)
    end.write(b"1")
    leave(end)
    leave(end)
    end.write(b"2")
    await turns()
    assert near.said == ["made", ("lost", None)]
    assert far.said == ["made", b"1", "eof", ("lost", None)]
    assert (end.is_closing(), other.is_closing()) == (True, True)

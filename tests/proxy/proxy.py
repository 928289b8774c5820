"""A proxy between a client and a broker that knows where each frame begins, and harms the one it was told to harm.

It passes on what both sides say, frame by frame. `decide` is asked once for each frame, as soon as it is known what kind
it is, what shall become of it: nothing special, an end of the connection at one of its bytes, or other bytes in its
place. All of it lives in the event loop of the test.
"""

from __future__ import annotations

import asyncio
import enum
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Self, TypeAlias, cast

import attrs

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_REQUEST_HEAD: Final = struct.Struct(">ihhi")
_ANSWER_HEAD: Final = struct.Struct(">ii")
_LENGTH: Final = 4


class Side(enum.Enum):
    """Which way a frame goes."""

    REQUEST = "to the broker"
    ANSWER = "to the client"


class Ending(enum.Enum):
    """The ways to end a connection at the byte where it is cut."""

    RESET = "both ends get an RST"
    FIN = "the client is told that nothing more will come; what it says is read and thrown away"
    FIN_TO_BROKER = (
        "the broker is told that nothing more will come; the client sees what the broker makes of it"
    )
    SILENCE = "nothing passes any more; what the client says is read and thrown away"
    DEAF = "nothing passes any more, and what the client says is not read"
    STRAY = "the client gets an RST; the rest of the frame is kept and may reach the broker later"


@attrs.frozen
class Head:
    """The facts of a frame in its first bytes; `size` includes its length field."""

    side: Side
    api: int
    version: int
    correlation_id: int
    size: int


@attrs.frozen
class Cut:
    """Pass on so many bytes of the frame, then end the connection."""

    at: int
    ending: Ending


@attrs.frozen
class Rewrite:
    """Send these pieces in place of the frame, each to be read before the next is written, `every` seconds apart."""

    make: Callable[[bytes], Sequence[bytes]]
    every: float = 0.0


Act: TypeAlias = Cut | Rewrite | None
Decide: TypeAlias = Callable[[Head], Act]


@attrs.define(eq=False)
class Plan:
    """Harm the next `times` frames of this kind, after `skip` of them; None for `api` or `times`: all."""

    side: Side
    api: int | None
    act: Cut | Rewrite
    skip: int = 0
    times: int | None = 1
    count: int = 0
    reached: asyncio.Event = attrs.Factory(asyncio.Event)

    def applies(self, head: Head) -> bool:
        """Is this a frame that is meant? It counts when it is."""
        if head.side is not self.side or self.api not in (None, head.api):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None and self.count >= self.times:
            return False
        self.count += 1
        self.reached.set()
        return True


class _End(asyncio.Protocol):
    """One of the two sockets of a passage."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.on_data: Callable[[bytes], None] = lambda _: None
        self.on_lost: Callable[[], None] = lambda: None
        self._said_all = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(None)
        self.on_lost()

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self._said_all and not self.transport.is_closing():
            self.transport.write(data)

    def write_eof(self) -> None:
        if self.transport is not None and not self._said_all and not self.transport.is_closing():
            self._said_all = True
            self.transport.write_eof()

    def reset(self) -> None:
        if self.transport is not None and not self.lost.done():
            raw = self.transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.transport.abort()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()


class _ClientEnd(_End):
    """The socket that the proxy accepted."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__()
        self._proxy = proxy

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._proxy._came(self)


@attrs.define(eq=False)
class _Outlet:
    """The bytes that leave in one direction: at once, or piece by piece."""

    end: _End
    _pieces: deque[tuple[bytes, float]] = attrs.field(factory=deque, init=False)
    _going: bool = attrs.field(default=False, init=False)

    def put(self, pieces: Sequence[bytes], every: float = 0.0) -> None:
        self._pieces.extend((piece, every) for piece in pieces)
        if not self._going:
            self._next()

    def _next(self) -> None:
        self._going = bool(self._pieces)
        if not self._going:
            return
        piece, every = self._pieces.popleft()
        self.end.write(piece)
        loop = asyncio.get_running_loop()
        if every:
            loop.call_later(every, self._next)
        elif self._pieces:
            # Scheduled calls run before events of the selector in the same turn: the reader needs two turns.
            loop.call_soon(loop.call_soon, self._next)
        else:
            self._going = False


class Passage:
    """One connection of a client, and the one to the broker that belongs to it."""

    def __init__(self, proxy: Proxy, client: _ClientEnd) -> None:
        self.proxy = proxy
        self.client = client
        self.broker = _End()
        self.ending: Ending | None = None
        self.apis: set[int] = set()
        """The request."""
        self._unread = {side: bytearray() for side in Side}
        self._decided: dict[Side, tuple[Head, Act] | None] = dict.fromkeys(Side)
        self._asked: dict[int, tuple[int, int]] = {}
        self._outlets = {Side.REQUEST: _Outlet(self.broker), Side.ANSWER: _Outlet(client)}
        client.on_data = lambda data: self._feed(Side.REQUEST, data)
        client.on_lost = self._client_left
        self.broker.on_data = lambda data: self._feed(Side.ANSWER, data)
        self.broker.on_lost = self._broker_left

    @property
    def client_left(self) -> bool:
        """Has the client hung up, or was it cut off?"""
        return self.client.lost.done()

    # -- bytes

    def _feed(self, side: Side, data: bytes) -> None:
        if self.ending in (None, Ending.DEAF):
            self._unread[side] += data
            self._go_on(side)

    def _go_on(self, side: Side) -> None:
        while self.ending is None and self._step(side):
            pass

    def _step(self, side: Side) -> bool:
        """Deal with the first frame, if enough of it is there; True when it is done with."""
        decided = self._decided[side] = self._decided[side] or self._decide(side)
        if decided is None:
            return False
        head, act = decided
        unread = self._unread[side]
        if isinstance(act, Cut):
            at = min(act.at, head.size)
            if len(unread) >= (head.size if act.ending is Ending.STRAY else at):
                self._cut(side, at, act.ending)
            return False
        if len(unread) < head.size:
            return False
        frame = bytes(unread[: head.size])
        del unread[: head.size]
        self._decided[side] = None
        self._outlets[side].put([frame] if act is None else act.make(frame), act.every if act else 0.0)
        return True

    def _decide(self, side: Side) -> tuple[Head, Act] | None:
        head = self._head(side, self._unread[side])
        if head is None:
            return None
        self.proxy.heads.append(head)
        return head, self.proxy.decide(head)

    def _head(self, side: Side, unread: bytearray) -> Head | None:
        if side is Side.REQUEST and len(unread) >= _REQUEST_HEAD.size:
            length, api, version, correlation_id = _REQUEST_HEAD.unpack_from(unread)
            self._asked[correlation_id] = api, version
            self.apis.add(api)
            return Head(side, api, version, correlation_id, _LENGTH + length)
        if side is Side.ANSWER and len(unread) >= _ANSWER_HEAD.size:
            length, correlation_id = _ANSWER_HEAD.unpack_from(unread)
            return Head(side, *self._asked.pop(correlation_id), correlation_id, _LENGTH + length)
        return None

    # -- ends

    def _cut(self, side: Side, at: int, ending: Ending) -> None:
        self.ending = ending
        passed = bytes(self._unread[side][:at])
        del self._unread[side][:at]
        if passed:
            self._outlets[side].put([passed])
        self._end(ending)

    def _end(self, ending: Ending) -> None:
        self.ending = ending
        match ending:
            case Ending.RESET:
                self.client.reset()
                self.broker.reset()
            case Ending.FIN:
                self.client.write_eof()
            case Ending.FIN_TO_BROKER:
                self.broker.write_eof()
            case Ending.STRAY:
                self.client.reset()
            case Ending.DEAF:
                assert self.client.transport is not None
                self.client.transport.pause_reading()
            case Ending.SILENCE:
                pass

    def end(self, ending: Ending) -> None:
        """End it now, between two frames."""
        if not self.client_left:
            self._end(ending)

    def say(self, data: bytes) -> None:
        """Tell the client something that no broker said."""
        self.client.write(data)

    def deliver_stray(self) -> None:
        """Let the broker have the rest of what the client once said."""
        self.broker.write(bytes(self._unread[Side.REQUEST]))
        self._unread[Side.REQUEST].clear()

    def hear_again(self) -> None:
        """Read on where nothing was read for a while; nothing is lost."""
        assert self.ending is Ending.DEAF
        assert self.client.transport is not None
        self.ending = None
        decided = self._decided[Side.REQUEST]
        if decided is not None:
            self._decided[Side.REQUEST] = decided[0], None
        self.client.transport.resume_reading()
        for side in Side:
            self._go_on(side)

    def drop(self) -> None:
        """End both connections, whatever they are doing."""
        self.client.reset()
        self.broker.reset()

    def _client_left(self) -> None:
        if self.ending is not Ending.STRAY:
            self.broker.close()

    def _broker_left(self) -> None:
        if self.ending in (None, Ending.FIN_TO_BROKER):
            self.client.close()


class Proxy:
    """Listens in place of one broker."""

    def __init__(self, host: str, port: int) -> None:
        self._to = host, port
        self.port = 0
        self.accepted = 0
        self.heads: list[Head] = []
        self.passages: list[Passage] = []
        self.plans: list[Plan] = []
        self.greetings: deque[Ending] = deque()
        """How the next connections end as soon as they are accepted."""
        self.decide: Decide = self._by_plan
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # -- lifecycle

    async def start(self) -> Self:
        """Listen at a free port of the loopback."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _ClientEnd(self), "127.0.0.1", 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Listen no more, and end every connection."""
        assert self._server is not None
        # A connection accepted in this turn gets its transport in the next one, but not from a closed server.
        asyncio.get_running_loop().remove_reader(self._server.sockets[0].fileno())
        await asyncio.sleep(0)
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for passage in self.passages:
            passage.drop()
        for passage in self.passages:
            for end in (passage.client, passage.broker):
                if end.transport is not None:
                    await end.lost
        await self._server.wait_closed()

    def _came(self, client: _ClientEnd) -> None:
        self.accepted += 1
        passage = Passage(self, client)
        self.passages.append(passage)
        assert client.transport is not None
        client.transport.pause_reading()
        if self.greetings:
            passage.end(self.greetings.popleft())
            if passage.ending is not Ending.DEAF and not passage.client_left:
                client.transport.resume_reading()
            return
        task = asyncio.get_running_loop().create_task(self._reach_broker(passage))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reach_broker(self, passage: Passage) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: passage.broker, *self._to)
        except OSError:
            passage.client.reset()
            return
        if passage.client_left:
            passage.broker.close()
        elif passage.client.transport is not None:
            passage.client.transport.resume_reading()

    # -- targets

    def plan(self, side: Side, api: int | None, act: Cut | Rewrite, **which: Any) -> Plan:
        """Harm these frames; the plan that was made first is asked first."""
        plan = Plan(side, api, act, **which)
        self.plans.append(plan)
        return plan

    def _by_plan(self, head: Head) -> Act:
        return next((plan.act for plan in self.plans if plan.applies(head)), None)

    def heal(self) -> None:
        """Harm nothing more; connections that were silenced are reset."""
        self.plans.clear()
        self.greetings.clear()
        self.decide = self._by_plan
        for passage in self.passages:
            if passage.ending is not None:
                passage.drop()

    @property
    def open(self) -> list[Passage]:
        """The connections whose client is still there."""
        return [passage for passage in self.passages if not passage.client_left]

    def open_for(self, api: int) -> list[Passage]:
        """Those over which such a request came."""
        return [passage for passage in self.open if api in passage.apis]

    def sizes(self, side: Side, api: int) -> list[int]:
        """How long the frames of one kind were, oldest first."""
        return [head.size for head in self.heads if head.side is side and head.api == api]

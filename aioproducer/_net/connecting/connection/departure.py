"""The departure of this producer from a connection, behind its answers and behind the bytes that have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._net.connecting.connection.acknowledged import is_acknowledged
from aioproducer._net.timers.wakeup import wake

if TYPE_CHECKING:
    import asyncio

    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._state.connecting.pairing import Pairing

__all__ = ["Departure"]

# No event says that a retired connection has all answers, or that a socket has all bytes of a TLS connection.
_LOOK_AGAIN = 0.02
# The peer has acknowledged each byte for so many seconds: it is not waited for until it closes a TLS connection as well.
_ACKNOWLEDGED = 1.0


class Departure:
    """The departure from one connection: it takes no further request, and is closed without a loss of written bytes."""

    __slots__ = ("_connection", "_loop", "_pairing", "is_under_way")

    def __init__(self, connection: Connection, pairing: Pairing, loop: asyncio.AbstractEventLoop) -> None:
        # The transport closes the connection when the socket has all bytes.
        self.is_under_way = False
        self._connection = connection
        self._pairing = pairing
        self._loop = loop

    def leave_when_answered(self) -> None:
        """Take no further request, and close the connection when its requests have their answers; returns at once.

        A dialogue that holds the connection is waited for as well.
        """
        connection = self._connection
        connection.gate.retire()
        if connection.closed:
            return
        if connection.in_flight or not connection.gate.is_retired:
            self._loop.call_later(_LOOK_AGAIN, self.leave_when_answered)
        else:
            self.leave()

    def leave(self) -> None:
        """Close the connection when its written bytes are in the socket; returns at once. All requests must have their answers.

        Only bytes without an answer (acks=0) are waited for. The transport itself waits: over TLS, parts of them are in buffers
        that have no public size.
        """
        self._connection.gate.retire()
        transport = self._connection.transport
        if transport is None or not self._pairing.has_unanswered:
            self._connection.close()
        elif not self.is_under_way:
            self.is_under_way = True
            transport.close()
            if transport.get_extra_info("ssl_object") is not None:
                self._close_acknowledged(0)

    async def finish(self) -> None:
        """Close the connection when its written bytes are in the socket, and wait for that: see `leave()`."""
        self.leave()
        if not self._connection.closed:
            ended = self._loop.create_future()
            self._connection.add_close_callback(lambda _: wake(ended))
            await ended

    def _close_acknowledged(self, looks: int) -> None:
        """Over TLS the transport waits until the peer closes as well, for up to 30 s, although the peer has every byte."""
        if self._connection.closed:
            return
        looks = looks + 1 if is_acknowledged(self._connection.transport) else 0
        if looks * _LOOK_AGAIN >= _ACKNOWLEDGED:
            self._connection.close()
        else:
            self._loop.call_later(_LOOK_AGAIN, self._close_acknowledged, looks)

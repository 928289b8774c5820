"""One open connection together with its permits: at most `max_in_flight_requests_per_connection` at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import attrs
from anyio import Semaphore, WouldBlock

if TYPE_CHECKING:
    from aioproducer._net.connecting.connection.connection import Connection


@attrs.define(eq=False)
class Link:
    """A permit is held from the write of a request to its answer, or to the end of the connection."""

    connection: Connection
    permits: Semaphore
    ended: asyncio.Event

    @classmethod
    def over(cls, connection: Connection, permits: int) -> Link:
        """A link that allows so many requests in flight."""
        ended = asyncio.Event()
        connection.add_close_callback(lambda _connection: ended.set())
        return cls(connection, Semaphore(permits, max_value=permits, fast_acquire=True), ended)

    async def permit(self) -> None:
        """Wait for a permit; without a turn of the loop when there is one."""
        try:
            self.permits.acquire_nowait()
        except WouldBlock:
            await self.permits.acquire()


def is_busy(connection: Connection) -> bool:
    """Whether a request waits for its answer, or bytes wait for room in the socket (with acks=0 there is no answer)."""
    return bool(connection.in_flight or connection.unsent)


def is_idle(connection: Connection, now: float, limit: float) -> bool:
    """Whether nothing was said over a connection for so many seconds, and nothing waits to be sent or answered."""
    return not is_busy(connection) and now - connection.last_used >= limit

"""One open connection together with its permits: at most `max_in_flight_requests_per_connection` at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from anyio import Semaphore, WouldBlock

if TYPE_CHECKING:
    from aioproducer._net.connection import Connection


@attrs.frozen(eq=False)
class Link:
    """A permit is held from the write of a request to its answer, or to the end of the connection."""

    connection: Connection
    permits: Semaphore

    @classmethod
    def over(cls, connection: Connection, permits: int) -> Link:
        """A link that allows so many requests in flight."""
        return cls(connection, Semaphore(permits, fast_acquire=True))

    async def permit(self) -> None:
        """Wait for a permit; without a turn of the loop when there is one."""
        try:
            self.permits.acquire_nowait()
        except WouldBlock:
            await self.permits.acquire()

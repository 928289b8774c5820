"""A broker that was reached, with a connection for each question that is open at the same time."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from aioproducer._state.connecting.endpoint import joined

if TYPE_CHECKING:
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.diagnosing.opening import Door
    from aioproducer._state.connecting.endpoint import BrokerEndpoint

__all__ = ["Server"]


class Server:
    """A broker, and its idle connections. A question without an answer ends its own connection, and no other.

    `address` is the one that the broker was reached at; None: any address of the endpoint.
    """

    def __init__(
        self, door: Door, endpoint: BrokerEndpoint, connection: Connection, address: str | None = None
    ) -> None:
        self.endpoint = endpoint
        self.address = address
        self.versions = connection.versions
        self._door = door
        self._idle = [connection]
        self._closed = False

    @contextlib.asynccontextmanager
    async def connection(self, limit: float) -> AsyncIterator[Connection]:
        """An idle connection, or another one, which is opened within `limit` seconds."""
        connection = self._next_idle() or await self._door.dial(self.endpoint, limit, self.address)
        try:
            yield connection
        finally:
            # An answer that is still owed would come before the next one.
            if self._closed or connection.closed or connection.in_flight:
                connection.close()
            else:
                self._idle.append(connection)

    @property
    def place(self) -> str:
        """`address:port`, or the name where any address is used."""
        return joined(self.address or self.endpoint.host, self.endpoint.port)

    async def offered(self, limit: float) -> tuple[str, ...] | None:
        """The mechanisms of SASL that the broker offers; None where it says that the listener has none."""
        return await self._door.offered_at(self.endpoint, limit, self.address)

    def close(self) -> None:
        """Close all connections; those in use are closed when their questions end."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _next_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        return None

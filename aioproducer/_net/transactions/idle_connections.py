"""Connections to coordinators that one request of a call has left, and another one takes.

Dials of one address come one after the other, with a pause: a call for thousands of ids must not dial for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aioproducer._net.connecting.connection.connection import Connection

__all__ = ["IdleConnections"]


class IdleConnections:
    """The open connections by address, each without a user."""

    def __init__(self) -> None:
        self._by_address: dict[tuple[str, int], list[Connection]] = {}

    def leave(self, address: tuple[str, int], connection: Connection) -> None:
        """Keep a connection whose requests have their answers."""
        self._by_address.setdefault(address, []).append(connection)

    def take(self, address: tuple[str, int]) -> Connection | None:
        """A connection that takes requests, if there is one."""
        left = self._by_address.get(address, [])
        while left:
            connection = left.pop()
            if connection.gate.takes_requests:
                return connection
            connection.close()
        return None

    def close(self) -> None:
        """Close all of them."""
        for left in self._by_address.values():
            while left:
                left.pop().close()

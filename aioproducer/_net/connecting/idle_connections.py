"""Connections to brokers that one request has left, and another one of the same session takes.

Dials of one address come one after the other, with a pause: a session that asks about thousands of ids must not dial for
each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._net.connecting.link import is_idle

if TYPE_CHECKING:
    from aioproducer._net.connecting.connection.connection import Connection

__all__ = ["IdleConnections"]


class IdleConnections:
    """The open connections by address, each without a user.

    One that was idle for `max_idle_ms` is not used again: a device on the way may have dropped it. -1: there is no limit.
    """

    def __init__(self, max_idle_ms: int) -> None:
        self._max_idle = max_idle_ms / 1000
        self._by_address: dict[tuple[str, int], list[Connection]] = {}

    def leave(self, address: tuple[str, int], connection: Connection) -> None:
        """Keep a connection whose requests have their answers."""
        self._by_address.setdefault(address, []).append(connection)

    def take(self, address: tuple[str, int]) -> Connection | None:
        """The connection that was used last and takes requests, if there is one."""
        left = self._by_address.get(address, [])
        while left:
            connection = left.pop()
            if connection.gate.takes_requests and not self._is_too_old(connection):
                return connection
            connection.close()
        return None

    def _is_too_old(self, connection: Connection) -> bool:
        return self._max_idle > 0 and is_idle(connection, connection.loop.time(), self._max_idle)

    def close(self) -> None:
        """Close all of them."""
        for left in self._by_address.values():
            while left:
                left.pop().close()

"""Connections to brokers that one request has left, and another one of the same session takes.

Dials of one address come one after the other, with a pause: a session that asks about thousands of ids must not dial for
each. A producer that changes its transactional id needs neither a dial nor a look-up for an id that it had before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final

from aioproducer._net.connecting.link import is_idle

if TYPE_CHECKING:
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._state.connecting.endpoint import BrokerEndpoint

__all__ = ["IdleConnections"]

Address = tuple[str, int]
# The number of names whose last address is kept.
MOST_NAMES: Final = 256


class IdleConnections:
    """The open connections by address, each without a user.

    One that was idle for `max_idle_ms` is not used again: a device on the way may have dropped it. -1: there is no limit.
    `successor_of` gives the connection that was opened in place of one that has ended, and where it leads.
    """

    def __init__(
        self, max_idle_ms: int, successor_of: Callable[[Connection], tuple[BrokerEndpoint, Connection] | None]
    ) -> None:
        self._max_idle = max_idle_ms / 1000
        self._successor_of = successor_of
        self._by_address: dict[Address, list[Connection]] = {}
        # The address that answers about a name; the newest one comes last.
        self._by_name: dict[Hashable, Address] = {}

    def leave(self, address: Address, connection: Connection) -> None:
        """Keep a connection whose requests have their answers."""
        self._by_address.setdefault(address, []).append(connection)
        connection.add_close_callback(self._closed)

    def remember(self, name: Hashable, address: Address) -> None:
        """The broker at this address answers about this name."""
        self._by_name.pop(name, None)
        self._by_name[name] = address
        if len(self._by_name) > MOST_NAMES:
            del self._by_name[next(iter(self._by_name))]

    def take_for(self, name: Hashable) -> tuple[Address, Connection] | None:
        """A connection to the address that answered about this name, if one is open."""
        address = self._by_name.get(name)
        connection = None if address is None else self.take(address)
        return None if address is None or connection is None else (address, connection)

    def forget(self, name: Hashable) -> None:
        """Another broker may answer about this name now."""
        self._by_name.pop(name, None)

    def take(self, address: Address) -> Connection | None:
        """The connection that was used last and takes requests, if there is one."""
        left = self._by_address.get(address, [])
        while left:
            connection = left.pop()
            connection.remove_close_callback(self._closed)
            if self._is_fit(connection):
                return connection
            connection.close()
        return None

    def _is_fit(self, connection: Connection) -> bool:
        is_too_old = self._max_idle > 0 and is_idle(connection, connection.loop.time(), self._max_idle)
        return connection.gate.takes_requests and not is_too_old

    def _closed(self, connection: Connection) -> None:
        self._remove(connection)
        successor = self._successor_of(connection)
        if successor is not None:
            self.leave(successor[0].address, successor[1])

    def _remove(self, connection: Connection) -> None:
        for address, left in list(self._by_address.items()):
            fit = [each for each in left if each is not connection]
            if fit:
                self._by_address[address] = fit
            else:
                del self._by_address[address]

    def close_old(self) -> None:
        """Close those that are not used again."""
        for each in [each for left in self._by_address.values() for each in left]:
            if not self._is_fit(each):
                each.close()

    def close(self) -> None:
        """Close all of them."""
        left, self._by_address = self._by_address, {}
        for each in [each for connections in left.values() for each in connections]:
            each.remove_close_callback(self._closed)
            each.close()

"""The successive connections to one broker: state, counters, last error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._callers.copied import retried
from aioproducer._net.connecting.connection.ends import Ending
from aioproducer.errors import AuthenticationError, text_of
from aioproducer.listeners import ConnectionReport
from aioproducer.stats import ConnectionStats

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.connecting.connection.traffic import Traffic

IDLE, CONNECTING, CONNECTED = "idle", "connecting", "connected"
THROTTLED, DISCONNECTED, UNREACHABLE = "throttled", "disconnected", "unreachable"


class ConnectionHistory:
    """The history of the connections for one purpose, of which one is open at a time."""

    def __init__(
        self,
        broker: str,
        loop: asyncio.AbstractEventLoop,
        traffic: Traffic,
        on_change: Callable[[ConnectionReport], None] | None = None,
    ) -> None:
        self.broker = broker
        self.state = IDLE
        self.address: str | None = None
        self.connection: Connection | None = None
        self.traffic = traffic
        self.last_error: BaseException | None = None
        # Called with each change of the state; None without a listener.
        self.on_change = on_change
        self._loop = loop
        self._since = loop.time()

    def connecting(self, address: str | None) -> None:
        """An attempt to connect begins."""
        self.address = address
        self.become(CONNECTING)

    def failed(self, error: BaseException) -> None:
        """An attempt to connect has failed."""
        self.traffic.failures += 1
        self.traffic.authentication_failures += isinstance(error, AuthenticationError)
        self.last_error = error
        self.become(UNREACHABLE, error)

    def connected(self, connection: Connection) -> None:
        """An attempt to connect has succeeded."""
        self.traffic.connects += 1
        self.connection = connection
        # The counters go on, without those of the opening dialogue.
        connection.traffic = self.traffic
        self.traffic.authentications += connection.gate.session is not None
        self.become(CONNECTED)
        connection.add_close_callback(self._ended)

    def become(self, state: str, error: BaseException | None = None) -> None:
        """The state has changed."""
        if state == self.state:
            return
        self.state = state
        self._since = self._loop.time()
        if self.on_change is not None:
            self.on_change(ConnectionReport(self.broker, self.address, state, error))

    def _ended(self, connection: Connection) -> None:
        if connection is not self.connection:
            return
        self.connection = None
        if connection.ending is Ending.LEFT:
            self.become(IDLE)
            return
        self.last_error = connection.close_reason
        self.traffic.failures += connection.ending is Ending.GIVEN_UP
        self.become(DISCONNECTED, connection.close_reason)

    def snapshot(self) -> ConnectionStats:
        """The present state and counters. For any thread."""
        connection, traffic = self.connection, self.traffic
        return ConnectionStats(
            broker=self.broker,
            state=self.state,
            requests_in_flight=0 if connection is None else connection.in_flight,
            bytes_in_flight=0 if connection is None else retried(lambda: connection.bytes_in_flight),
            connects=traffic.connects,
            failures=traffic.failures,
            address=self.address,
            requests=traffic.requests,
            request_errors=traffic.request_errors,
            bytes_sent=traffic.bytes_sent,
            bytes_received=traffic.bytes_received,
            throttle_seconds=traffic.throttle_seconds,
            request_time=traffic.request_time.snapshot(),
            last_error=None if self.last_error is None else text_of(self.last_error),
            seconds_in_state=max(0.0, self._loop.time() - self._since),
            authentications=traffic.authentications,
            reauthentications=traffic.reauthentications,
            authentication_failures=traffic.authentication_failures,
            session_ends_in=None if connection is None else self._session_left(connection),
        )

    def _session_left(self, connection: Connection) -> float | None:
        session = connection.gate.session
        return (
            max(0.0, session.ends_at - self._loop.time()) if session is not None and session.has_end else None
        )

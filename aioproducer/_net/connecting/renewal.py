"""Authenticating again on open connections, before the sessions that brokers granted end (KIP-368).

A broker closes a connection without an answer at the first request after the end of its session. So a connection that is used
authenticates again before that, behind its requests in flight. One that is not used, or that cannot, takes no further request
when its session ends: its answers are waited for, and it is closed.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

import anyio

from aioproducer._net.connecting.connection.ends import Ending
from aioproducer._net.connecting.conversing import converse_in_use
from aioproducer._net.connecting.renewal_pacing import RenewalPacing
from aioproducer._net.connecting.security import CredentialsChanged
from aioproducer._net.log import PacedWarning, log_of
from aioproducer._state.backoff import Backoff
from aioproducer.errors import AuthenticationError, KafkaError, text_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.connecting.refusals import Attempt, Refusals
    from aioproducer._state.connecting.dialogue import Dialogue
    from aioproducer._state.connecting.sessions import AuthenticatedSession

__all__ = ["SessionRenewal"]

_RETRIES = Backoff(0.1, 5.0)
# The part of a session after which the time of its renewal is looked at again: a broker that has become slow makes it earlier.
_LOOK_AGAIN = 0.05
# Seconds for the begin of a renewal: a busy machine takes some for the credentials.
_LEAST_TIME = 0.5


class _Use(NamedTuple):
    """How far a connection was used: without answers (acks=0) only the time tells."""

    answers: int
    last_used: float

    @classmethod
    def of(cls, connection: Connection) -> Self:
        return cls(connection.answers, connection.last_used)


class SessionRenewal:
    """Renews the sessions of the connections of one producer, each in a task that ends with the connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rng: Random,
        client_id: str | None,
        timeout: float,
        refusals: Refusals,
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._log = log_of(client_id)
        self._timeout = timeout
        self._refusals = refusals
        self._pacing = RenewalPacing(loop)
        self._tasks: set[asyncio.Task[None]] = set()
        self._warning = PacedWarning()

    def watch(
        self,
        connection: Connection,
        address: tuple[str, int],
        authentication: Callable[[], Dialogue[AuthenticatedSession]],
    ) -> None:
        """Keep the session of this connection alive, if it has an end."""
        if connection.gate.session is None or not connection.gate.session.has_end:
            return
        keep = self._keep(connection, address, authentication, _Use.of(connection))
        task = self._loop.create_task(keep, name="aioproducer session")
        self._tasks.add(task)
        task.add_done_callback(partial(self._done, connection))
        connection.add_close_callback(partial(_cancel, task))

    def _done(self, connection: Connection, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        # Cancelled from outside, for example: nothing else would close the connection at the end of its session.
        if task.cancelled() or task.exception() is not None:
            connection.close()

    async def _keep(
        self,
        connection: Connection,
        address: tuple[str, int],
        authentication: Callable[[], Dialogue[AuthenticatedSession]],
        before: _Use,
    ) -> None:
        session = connection.gate.session
        delay = 0.0
        while session is not None and session.has_end:
            await self._until_due(connection, session, delay)
            renewed = None
            is_late = self._loop.time() >= session.last_write_at
            if not is_late and (connection.in_flight or _Use.of(connection) != before):
                renewed = await self._renewed(connection, address, session, authentication)
            elif connection.gate.takes_requests:
                await self._until(session.last_write_at)
            if renewed is None:
                connection.departure.leave_when_answered()
                return
            session = connection.gate.session = renewed
            before = _Use.of(connection)
            # That of one session is expected in the next one as well, and forgotten after it.
            delay = connection.take_longest_delay()

    async def _until_due(self, connection: Connection, session: AuthenticatedSession, delay: float) -> None:
        """Wait for the time of the renewal. `delay` is that of the requests of the session before."""
        chance = self._rng.random()
        while True:
            due = session.renew_at(chance, max(delay, connection.longest_delay()))
            now = self._loop.time()
            if now >= min(due, session.last_write_at):
                return
            await self._until(min(due, session.last_write_at, now + session.lifetime * _LOOK_AGAIN))

    async def _renewed(
        self,
        connection: Connection,
        address: tuple[str, int],
        session: AuthenticatedSession,
        authentication: Callable[[], Dialogue[AuthenticatedSession]],
    ) -> AuthenticatedSession | None:
        """The next session; None when the present one ends before there is another."""
        failures = 0
        until = self._until_read(connection, session)
        while (left := until - self._loop.time()) > 0:
            attempt: Attempt | None = None
            try:
                async with (
                    self._pacing.turn(left),
                    self._refusals.attempt_before(address, until) as attempt,
                ):
                    if attempt is None:
                        return None
                    renewed = await converse_in_use(
                        connection,
                        attempt.presenting(authentication()),
                        timeout=self._timeout,
                        begin_within=until - self._loop.time(),
                    )
            except asyncio.CancelledError:
                # The end of the connection cancels this task, also in the middle of an authentication.
                is_broken_off = connection.ending is not Ending.LEFT and bool(connection.authenticating)
                connection.traffic.authentication_failures += is_broken_off
                raise
            except CredentialsChanged:
                pass  # no failure: it begins again with the new ones, unless the connection is replaced or closed by now
            except Exception as error:  # noqa: BLE001  # without this task, the connection would outlive its session
                if connection.gate.is_retired:
                    # It is being replaced, or its session has ended: it takes no further request.
                    return None
                self._note(connection, error, attempt)
            else:
                connection.traffic.reauthentications += 1
                return renewed
            if connection.closed or connection.gate.is_retired:
                return None
            await self._until(min(until, self._loop.time() + _RETRIES.after(failures, self._rng)))
            failures += 1
        return None

    def _note(self, connection: Connection, error: Exception, attempt: Attempt | None) -> None:
        has_begun = attempt is not None and attempt.has_begun
        connection.traffic.authentication_failures += has_begun
        # Another attempt, for which this one has waited, tells its refusal itself.
        if has_begun or not isinstance(error, AuthenticationError):
            self._warn(connection, error)

    def _until_read(self, connection: Connection, session: AuthenticatedSession) -> float:
        """The time until which requests are written while there is no next session: all are read before the end of this one.

        Where they wait for too long for that, there is half a second for the renewal all the same.
        """
        least = min(session.last_write_at, self._loop.time() + _LEAST_TIME)
        return max(session.last_write_at - connection.longest_delay(), least)

    def _warn(self, connection: Connection, error: Exception) -> None:
        # The end of a connection that is given up is a warning already, with this error.
        is_told = connection.ending is Ending.GIVEN_UP
        level = logging.DEBUG if is_told else self._warning.level(self._loop.time())
        known = isinstance(error, KafkaError | TimeoutError | OSError)
        self._log.log(
            level,
            "authenticating again on the connection to broker %s failed%s: %s",
            connection.broker,
            ", and the connection was closed" if connection.closed else "",
            # The text of any other error may have a secret.
            text_of(error) if known else type(error).__name__,
            extra={"broker": connection.broker},
        )

    async def _until(self, due: float) -> None:
        await anyio.sleep(max(0.0, due - self._loop.time()))


def _cancel(task: asyncio.Task[None], _connection: Connection) -> None:
    # The task itself may have closed the connection: it is at its end.
    if task is not asyncio.current_task(task.get_loop()):
        task.cancel()

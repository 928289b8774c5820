"""The coordinator of one transactional id, or of one group: found, dialed, asked, and looked up again when it moves."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio

from aioproducer._net.connecting.beside import give_up
from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._net.connecting.contact import Contact
from aioproducer._net.connecting.link import is_idle
from aioproducer._net.log import log_of
from aioproducer._net.transactions.required import leaves_out
from aioproducer._state.backoff import REPLACED, SOON, Backoff
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer._state.transactions.coordinator_verdicts import Answer, Request, judge, may_be_done
from aioproducer._state.transactions.replies import Reply, error_of
from aioproducer._wire.apis import FIND_COORDINATOR
from aioproducer._wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from aioproducer.errors import KafkaError, ProtocolError, StateError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aioproducer._net.cluster.session import Session
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.connecting.idle_connections import IdleConnections

KEYS_IN_A_LIST_FROM = 4
# Seconds between two look-ups beside an attempt at the former broker, at least.
_LOOK_UP_EVERY = 1.0
# The former transaction is being ended, which takes a few milliseconds; no message says when it has ended. Doubled each time,
# short waits hardly cost requests: measured, 0.4 more for a transaction of level 1, whether the first is 1 ms or 20 ms.
BUSY = Backoff(0.001, 1.0)


_ASK_AGAIN = frozenset({Answer.BUSY, Answer.REPLACED, Answer.RETRY, Answer.LOOK_UP})


def _failures(earlier: Counter[Answer]) -> int:
    """The number of earlier answers that the backoff counts."""
    return earlier[Answer.RETRY] + earlier[Answer.LOOK_UP] + max(0, earlier[Answer.REPLACED] - SOON)


class Key(enum.Enum):
    """The kind of name that a coordinator is found by."""

    GROUP = 0
    TRANSACTION = 1


class _NotFound(Exception):  # noqa: N818  # a message to settle(), not an error
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def _nothing(_endpoint: BrokerEndpoint) -> None:
    pass


def _leave(connection: Connection) -> None:
    connection.departure.leave()


class Coordinator:
    """The broker that keeps the state of one transactional id or group."""

    def __init__(
        self,
        session: Session,
        kind: Key,
        name: str,
        idle: IdleConnections,
        contact: Contact | None = None,
    ) -> None:
        self.session = session
        # Shared by the coordinators of one call or session.
        self._idle = idle
        self._address: tuple[str, int] | None = None
        # The connection to this address while the coordinator is looked for: it may turn out to be the same broker.
        self._former: Connection | None = None
        self.kind = kind
        self.name = name
        self.connection: Connection | None = None
        self.contact = contact or Contact(log_of(session.config.client_id), logging.DEBUG)
        # The error of the newest request while it has no answer.
        self.trouble: KafkaError | None = None
        # The time of the first one, while a request goes on.
        self.troubled_since: float | None = None

    async def settle(self, request: Request, attempt: Callable[[Connection], Awaitable[int]]) -> Reply:
        """Repeat the request until an answer is final. `attempt` makes one attempt, and returns its code.

        Raises ProtocolError if the coordinator lacks the API version, and StateError if the producer was closed.
        """
        try:
            return await self._settle(request, attempt)
        finally:
            # One that goes on beside it says so with its next error.
            self.troubled_since = None

    async def _settle(self, request: Request, attempt: Callable[[Connection], Awaitable[int]]) -> Reply:
        lost = undecided = 0
        earlier: Counter[Answer] = Counter()
        confirmed = False
        while True:
            asked, code = request, None
            connection = None
            try:
                connection = await self._opened()
                await self._takes_requests(connection)
                lost, undecided = lost + 1, undecided + 1
                code = await attempt(connection)
                lost -= 1
                if not may_be_done(request, code):
                    undecided -= 1
            except _NotFound as found:
                asked, code = Request.FIND_COORDINATOR, found.code
            except KafkaError as error:
                # The broker lacks the API version, and no request was made. (After an unreadable answer the connection is closed.)
                is_open = connection is not None and not connection.closed
                unspoken = isinstance(error, ProtocolError) and is_open
                if isinstance(error, StateError) or (unspoken and confirmed):
                    # The producer was closed, and opens no connection any more; or the version is missing for certain.
                    raise
                # Two connections have to report it: one list of versions may be incomplete.
                confirmed = unspoken
                lost, undecided = lost - unspoken, undecided - unspoken
                self.trouble = self.session.last_error = error
                self.contact.failed()
                self._give_up(connection)
            answer = Answer.LOOK_UP if code is None else judge(asked, code)
            if code:
                self.trouble = error_of(Reply(self.name, answer, asked, code, lost, undecided))
            self._note_trouble(request)
            if answer in _ASK_AGAIN:
                if answer is Answer.LOOK_UP or (asked, answer) == (Request.FIND_COORDINATOR, Answer.RETRY):
                    self._is_elsewhere(_failures(earlier))
                with self.session.addresses.until_closed():
                    await anyio.sleep(self._pause(answer, earlier))
                earlier[answer] += 1
            else:
                assert code is not None  # noqa: S101  # without an answer it is asked again
                self.trouble = None
                return Reply(self.name, answer, asked, code, lost, undecided, self.session.loop.time())

    def _is_elsewhere(self, failures: int) -> None:
        """Another broker may be the coordinator now, and that which was asked for it may know only a former one."""
        self.contact.failed()
        if self._former is None:
            self._former, self.connection = self.connection, None
        self._idle.forget(self._key)
        if failures % 2:
            self.session.control.change()

    def _note_trouble(self, request: Request) -> None:
        if self.trouble is not None:
            if self.troubled_since is None:
                self.troubled_since = self.session.loop.time()
            log_of(self.session.config.client_id).debug("%s for %s: %s", request.value, self.of, self.trouble)

    @property
    def _key(self) -> tuple[Key, str]:
        return self.kind, self.name

    @property
    def of(self) -> str:
        """The id or group in words."""
        return f"{'group' if self.kind is Key.GROUP else 'transactional id'} {self.name!r}"

    def _pause(self, answer: Answer, earlier: Counter[Answer]) -> float:
        rng, config = self.session.rng, self.session.config
        if answer is Answer.BUSY:
            return BUSY.after(earlier[answer], rng)
        if answer is Answer.REPLACED and earlier[answer] < SOON:
            return REPLACED.after(earlier[answer], rng)
        backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        return backoff.after(_failures(earlier), rng)

    # -- finding and dialing

    async def _opened(self) -> Connection:
        connection = self._usable()
        if connection is None:
            address, connection = self._idle.take_for(self._key) or await self._found()
            if connection is not self._former:
                self._forget_former()
                connection.add_close_callback(self._closed)
            self._former = None
            self._address, self.connection = address, connection
        return connection

    async def _takes_requests(self, connection: Connection) -> None:
        pause = connection.muted_until - self.session.loop.time()
        if pause > 0:
            await anyio.sleep(pause)
        # Here, so that a request that is never written does not count as one whose effect is unknown.
        await connection.gate.free(self.timeout)

    def _usable(self) -> Connection | None:
        connection = self.connection
        if connection is not None and not connection.gate.takes_requests:
            # It waits for the answers of others. One whose session ends is closed after them.
            self.connection = self._successor_of(connection)
        return self.connection

    def _closed(self, connection: Connection) -> None:
        if self.connection is connection:
            self.connection = self._successor_of(connection)
        elif self._former is connection:
            self._former = self._successor_of(connection)

    def _successor_of(self, former: Connection) -> Connection | None:
        """The connection that was opened in place of the former one: no other may be accepted."""
        found = self.session.addresses.successor_of(former)
        if found is None:
            return None
        endpoint, connection = found
        self._address = endpoint.address
        connection.add_close_callback(self._closed)
        self.contact.made(connection, f", the coordinator of {self.of}")
        return connection

    async def _found(self) -> tuple[tuple[str, int], Connection]:
        endpoint = await self._find()
        while True:
            at = endpoint.address
            connection = self._left_at(at)
            if connection is not None:
                return at, connection
            dialed = await self._dialed(endpoint)
            if not isinstance(dialed, BrokerEndpoint):
                self.contact.made(dialed, f", the coordinator of {self.of}")
                return at, dialed
            endpoint = dialed

    async def _dialed(self, endpoint: BrokerEndpoint) -> Connection | BrokerEndpoint:
        """A connection to this broker, or another coordinator, where that is known first."""
        dialing = asyncio.create_task(
            self.session.addresses.dial_unless_refused(endpoint), name="aioproducer coordinator"
        )
        moving = asyncio.create_task(self._moved(endpoint), name="aioproducer coordinator look-up")
        try:
            await asyncio.wait((dialing, moving), return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            give_up(dialing, _leave)
            raise
        finally:
            is_moved = moving.done()
            give_up(moving, _nothing)
        if is_moved and (not dialing.done() or dialing.exception() is not None):
            give_up(dialing, _leave)
            return moving.result()
        return dialing.result()

    async def _moved(self, endpoint: BrokerEndpoint) -> BrokerEndpoint:
        """Another coordinator than this one, which may not answer. A look-up that fails says nothing."""
        patience = max(_LOOK_UP_EVERY, self.session.config.socket_connection_setup_timeout_ms / 1000)
        while True:
            await anyio.sleep(patience)
            with contextlib.suppress(KafkaError, _NotFound):
                present = await self._find()
                if present.address != endpoint.address:
                    return present

    def _left_at(self, address: tuple[str, int]) -> Connection | None:
        """A connection to this address that is open and has no user."""
        former = self._former
        if former is not None and address == self._address and former.gate.takes_requests:
            return former
        return self._idle.take(address)

    def _forget_former(self) -> None:
        former, self._former = self._former, None
        if former is not None:
            former.close()

    async def _find(self) -> BrokerEndpoint:
        connection = await self.session.control.connected()
        version = connection.versions.choose(FIND_COORDINATOR)
        if version >= KEYS_IN_A_LIST_FROM:
            question = FindCoordinatorRequest(key_type=self.kind.value, coordinator_keys=[self.name])
        else:
            question = FindCoordinatorRequest(self.name, self.kind.value)
        answer = await answer_to(
            connection, question, FindCoordinatorResponse, timeout=self.timeout, version=version
        )
        if version < KEYS_IN_A_LIST_FROM:
            found: Any = answer
        else:
            found = next((one for one in answer.coordinators if one.key == self.name), None)
        if found is None:
            raise leaves_out(connection, "FindCoordinator")
        if found.error_code:
            raise _NotFound(found.error_code)
        return BrokerEndpoint.advertised(found.host, found.port, found.node_id, connection.broker)

    @property
    def timeout(self) -> float:
        """Seconds for one answer."""
        return self.session.config.request_timeout_ms / 1000

    def leave(self) -> None:
        """Leave the connection to another coordinator of the same call or session, unless a request of it has no answer."""
        connection = self.connection
        self._forget_former()
        if connection is None:
            return
        if self._address is None or connection.in_flight:
            self.forget()
            return
        self.connection = None
        connection.remove_close_callback(self._closed)
        self._idle.leave(self._address, connection)
        self._idle.remember(self._key, self._address)

    def forget(self) -> None:
        """Close the connection: another broker may be the coordinator now, or this one does not answer."""
        self._forget_former()
        self._close()

    def close_if_idle(self, now: float, limit: float) -> None:
        """Close connections without a request for `limit` seconds. A look-up that was cancelled has left the former one."""
        if self.connection is not None and is_idle(self.connection, now, limit):
            self._close()
        if self._former is not None and is_idle(self._former, now, limit):
            self._forget_former()

    def _give_up(self, connection: Connection | None) -> None:
        """Close the connection of a request that failed. Its successor, which may be open in its place, goes on to be used."""
        if self.connection is connection:
            self._close()
        else:
            self._idle.forget(self._key)

    def _close(self) -> None:
        connection, self.connection = self.connection, None
        self._idle.forget(self._key)
        if connection is not None:
            connection.close()

    def give_up_answers(self) -> None:
        """Close the connection if a request waits for its answer: another one would be late."""
        if self.connection is not None and self.connection.in_flight:
            self.forget()

"""The control connection: requests to any broker, for metadata and for a producer id."""

from __future__ import annotations

import asyncio
import copy
import math
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

from aioproducer._net.connecting.beside import Rounds, first_success, give_up
from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._net.connecting.dialing import is_refused_everywhere
from aioproducer._net.connecting.link import is_idle
from aioproducer._net.log import log_of
from aioproducer._net.observing.connections import ConnectionHistory
from aioproducer._state.connecting.endpoint import BrokerEndpoint, Origin, address_text
from aioproducer.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    ConfigurationError,
    KafkaError,
    ProtocolError,
    StateError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from aioproducer._net.cluster.session import Session
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.connecting.connection.traffic import Traffic
    from aioproducer._net.connecting.contact import Contact
    from aioproducer._state.connecting.opening import BrokerVersions


# Waiting does not help against these: a setting, a certificate or a password must change.
FINAL = (AuthenticationError, ConfigurationError)
# Seconds between two changes of the broker while others refuse: each new connection presents the credentials again.
_CHANGE_EVERY: Final = 30.0
# Rounds for one caller whose errors may be those of credentials that have changed meanwhile. They may change in every one.
_MOST_CHANGES: Final = 2
# Seconds that a request waits for another broker, while the present one would answer it.
_CHANGE_WITHIN: Final = 0.2


def _leave(made: tuple[BrokerEndpoint, Connection]) -> None:
    made[1].departure.leave()


class _AttemptFailed(Exception):  # noqa: N818  # it has the error
    """The error of an attempt at this broker, with the number of changes of the credentials at its end."""

    def __init__(self, endpoint: BrokerEndpoint, changes: int, error: KafkaError) -> None:
        super().__init__(endpoint.name)
        self.endpoint = endpoint
        self.changes = changes
        self.error = error


class _Errors:
    """The errors of attempts at several brokers."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._told: KafkaError | None = None
        # With the number of other credentials before it.
        self._refusal: tuple[int, KafkaError] | None = None
        # Whether all of these brokers were reached: an earlier refusal is no news of others.
        self._were_reached = True

    def failed(self, attempt: Exception) -> bool:
        """Note an error; returns whether another attempt may begin."""
        if not isinstance(attempt, _AttemptFailed):
            raise attempt
        control, error = self._control, attempt.error
        if not control.is_connected:
            # Otherwise the present connection is of use.
            control.history.address = address_text(attempt.endpoint.host, attempt.endpoint.port)
            control.history.failed(error)
            control.session.last_error = error
            control.contact.failed()
        if is_refused_everywhere(error):
            if attempt.changes != control.session.addresses.changes:
                return True  # Those credentials are not presented any more.
            self._refusal = self._refusal or (control.session.addresses.others, error)
            return False
        # A refusal says more than a broker that cannot be reached.
        if not isinstance(self._told, FINAL):
            self._told = error
        self._were_reached &= attempt.endpoint.address in control.session.addresses.unaccepted
        return True

    @property
    def has_any(self) -> bool:
        """Whether there is an error to be told: a refusal of former credentials is none."""
        return self._refusal is not None or self._told is not None

    def told(self) -> KafkaError:
        """The error that says most. Brokers that refused in an earlier round may be in their pause, or take long."""
        told, addresses = self._told, self._control.session.addresses
        # Other credentials may have come while the round waited for slow brokers: calls behind them share this error.
        if self._refusal is not None and self._refusal[0] == addresses.others:
            told = self._refusal[1]
        # The end of the producer is no fault of a broker.
        if not isinstance(told, (*FINAL, StateError)) and self._were_reached:
            told = addresses.present_refusal() or told
        return told or BrokerUnavailableError("no broker has answered yet")


Response = TypeVar("Response", bound="tuple[Any, ...]")


class Control:
    """One connection beside those of the senders, so that no Produce request delays an answer."""

    def __init__(self, session: Session, contact: Contact, traffic: Traffic) -> None:
        self.session = session
        self.contact = contact
        self.history = ConnectionHistory("metadata", session.loop, traffic)
        self.connection: Connection | None = None
        # The address of the newest connection, open or closed.
        self.address: tuple[str, int] | None = None
        # The broker of the newest answer to `ask`.
        self.answered_by: str | None = None
        # Addresses of brokers without support for producer ids: they are dialed only when no other broker is left.
        self.lacking: set[tuple[str, int] | None] = set()
        # Called with each new connection; None: telemetry is off.
        self.on_connected: Callable[[Connection], None] | None = None
        # The address of a broker whose answer did not help: it is the last one to be dialed again.
        self._left: tuple[str, int] | None = None
        # The metadata task and the identity task may both find no connection: one dials, the other uses its result.
        self.dialing = anyio.Lock()
        # The present broker is to be left as soon as another one accepts a connection.
        self._is_to_change = False
        self._changed_at = -math.inf
        self._changing: asyncio.Task[None] | None = None
        self._beginning: asyncio.Task[Connection | None] | None = None
        # One attempt may take long, while other brokers that have failed are well again.
        self._rounds = Rounds[tuple[str, int], tuple[BrokerEndpoint, "Connection"]](
            _leave, self._use_or_leave
        )
        # Completed when a connection is used, whichever attempt has led to it.
        self._used: asyncio.Future[None] | None = None
        self._failure: KafkaError | None = None

    @property
    def is_connected(self) -> bool:
        """Whether a request needs no new connection."""
        return self.connection is not None and self.connection.gate.takes_requests

    async def ask(
        self,
        message: tuple[Any, ...] | Callable[[BrokerVersions], tuple[Any, ...]],
        response_type: type[Response],
    ) -> Response:
        """The answer of the first broker that gives one; raises the error of the last broker.

        The message may depend on the versions of the broker.
        """
        connection = await self.connected()
        timeout = self.session.config.request_timeout_ms / 1000
        try:
            asked = message(connection.versions) if callable(message) else message
            answer = await answer_to(connection, asked, response_type, timeout=timeout)
        except ProtocolError as error:
            # The broker lacks a needed API version: another broker may have it, or the same one after a new ApiVersions
            # request.
            connection.close(copy.copy(error))  # a copy: a raised error collects a traceback with its frames
            raise
        self.answered_by = connection.broker
        return answer

    async def connected(self) -> Connection:
        """The connection, opened if there is none; raises the error of the last broker that was tried."""
        former = self._failure
        async with self.dialing:
            self._take_successor()
            if self.is_connected:
                await self._leave_a_poor_one()
            # The present one may have been closed meanwhile.
            if not self.is_connected:
                if self._failure is not None and self._failure is not former:
                    raise copy.copy(self._failure)
                await self._connect()
            assert self.connection is not None  # noqa: S101  # for type checkers
            return self.connection

    async def _connect(self) -> None:
        try:
            found = await self._dialed_or_begun()
        except KafkaError as error:
            # A new beginning may have led to a connection meanwhile.
            if self.is_connected:
                return
            self._failure = copy.copy(error)  # a raised error collects a traceback with its frames
            raise
        if found is not None:
            self._use(*found)

    async def _dialed_or_begun(self) -> tuple[BrokerEndpoint, Connection] | None:
        """A connection to one of the brokers; None if another attempt has led to one before."""
        task = asyncio.create_task(self._found_in_rounds(), name="aioproducer metadata")
        try:
            while not (task.done() or self.is_connected):
                self._used = self.session.loop.create_future()
                await asyncio.wait((task, self._used), return_when=asyncio.FIRST_COMPLETED)
            if not self.is_connected and self._beginning is not None and isinstance(task.exception(), FINAL):
                # Where the brokers refuse as well, the beginning, or a slow attempt, may still lead to others.
                self._used = self.session.loop.create_future()
                either = (self._beginning, self._used)
                await asyncio.wait(either, timeout=self._setup_timeout, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:  # cancelled, maybe in the turn in which a connection was made
            give_up(task, self._use_or_leave)
            raise
        if task.done():
            return task.result()
        give_up(task, _leave)
        return None

    def _take_successor(self) -> None:
        """Go on with the connection that was opened in place of the present one: no other broker may accept one."""
        former = self.connection
        if former is not None and not former.gate.takes_requests:
            successor = self.session.addresses.successor_of(former)
            if successor is not None:
                self._use(*successor)

    async def _leave_a_poor_one(self) -> None:
        """Open another connection where the present one is late or did not help; it is left last, as there may be no other."""
        if self._is_late():
            changing = self._change_to(self._worth_trying())
            while self._is_late() and not changing.done():
                await asyncio.wait((changing,), timeout=_CHANGE_WITHIN)
        elif self._is_to_change and not self._is_changing:
            await self._change()

    def _is_late(self) -> bool:
        """Whether a request would get its answer late.

        It would wait behind one that may get no answer, whose sender closes the connection then. Or the broker reads nothing
        for a while, as it throttles the metrics of this client.
        """
        connection = self.connection
        if connection is None:
            return False
        is_muted = connection.muted_until > self.session.loop.time() and not connection.in_flight
        return connection.has_optional or is_muted

    async def begun_again(self) -> bool:
        """Whether a connection to one of `bootstrap_servers` is in the place of the former one; False: not yet, or none can be opened.

        It is opened in a task of its own: they may not answer at all, and other brokers answer questions meanwhile.
        """
        if self._beginning is None or (self._beginning.done() and not self._is_used(self._beginning)):
            self._beginning = asyncio.create_task(self._begin_again(), name="aioproducer new beginning")
        await asyncio.wait((self._beginning,), timeout=_CHANGE_WITHIN)
        return self.has_begun()

    def has_begun(self) -> bool:
        """Whether a beginning has led to the present connection; that is said once."""
        beginning = self._beginning
        if beginning is None or not beginning.done():
            return False
        self._beginning = None
        return self._is_used(beginning)

    def _is_used(self, beginning: asyncio.Task[Connection | None]) -> bool:
        """Whether this attempt opened the present connection: it may have ended long before it is asked for."""
        opened = None if beginning.cancelled() else beginning.result()
        return opened is not None and opened is self.connection and self.is_connected

    async def _begin_again(self) -> Connection | None:
        refused = self.session.addresses.has_refused_lately
        servers = sorted(self._bootstrap_servers(), key=lambda each: refused(each.address))
        try:
            # Without the lock: requests of others still have the present one.
            endpoint, connection = await self._dial_one(self._free(servers))
        except KafkaError as error:
            log_of(self.session.config.client_id).debug("no metadata: %s", error)
            return None
        self._use(endpoint, connection)
        return connection

    async def _found_in_rounds(self) -> tuple[BrokerEndpoint, Connection]:
        """A connection to one of the brokers. Where some take long, rounds follow until there is an attempt at each, or an error."""
        rounds_with_changes = 0
        while True:
            changes = self.session.addresses.changes
            tried = self._rounds.under_way()
            candidates = [each for each in self._in_order() if each.address not in tried]
            free = self._free(candidates)
            errors = _Errors(self)
            found = await self._rounds.first_success(
                {endpoint.address: partial(self._attempt, endpoint) for endpoint in free},
                self._setup_timeout,
                errors.failed,
                has_others=len(free) < len(candidates),
            )
            if found is not None:
                return found
            # Where the credentials have changed, nothing tells yet whether the new ones are refused.
            rounds_with_changes += errors.has_any and changes != self.session.addresses.changes
            is_over = errors.has_any and changes == self.session.addresses.changes
            if is_over or self.is_connected or rounds_with_changes == _MOST_CHANGES:
                raise errors.told()

    async def _dial_one(self, candidates: list[BrokerEndpoint]) -> tuple[BrokerEndpoint, Connection]:
        errors = _Errors(self)
        attempts = [partial(self._attempt, endpoint) for endpoint in candidates]
        found = await first_success(attempts, self._setup_timeout, errors.failed, _leave)
        if found is None:
            raise errors.told()
        return found

    @property
    def _setup_timeout(self) -> float:
        return self.session.config.socket_connection_setup_timeout_ms / 1000

    async def _attempt(self, endpoint: BrokerEndpoint) -> tuple[BrokerEndpoint, Connection]:
        if not self.is_connected:
            self.history.connecting(address_text(endpoint.host, endpoint.port))
        try:
            return endpoint, await self.session.addresses.dial(endpoint)
        except KafkaError as error:
            raise _AttemptFailed(endpoint, self.session.addresses.changes, error) from None

    def _use_or_leave(self, made: tuple[BrokerEndpoint, Connection]) -> None:
        if self.is_connected or made[1].closed:
            _leave(made)
        else:
            self._use(*made)

    def _use(self, endpoint: BrokerEndpoint, connection: Connection) -> None:
        self._rounds.give_up()
        if self._used is not None and not self._used.done():
            self._used.set_result(None)
        former, self.connection = self.connection, connection
        if former is not None:
            former.departure.leave_when_answered()
        self.address = endpoint.address
        self._is_to_change = False
        connection.add_close_callback(self._closed)
        # Another attempt may have begun last.
        self.history.address = address_text(endpoint.host, endpoint.port)
        self.history.connected(connection)
        self.contact.made(connection, ", for metadata")
        if self.on_connected is not None:
            self.on_connected(connection)

    def _closed(self, connection: Connection) -> None:
        if self.connection is connection:
            self._take_successor()

    def _worth_trying(self) -> list[BrokerEndpoint]:
        """All brokers that may be dialed now; without any, the first that may be dialed again."""
        return self._free(self._in_order())

    def _in_order(self) -> list[BrokerEndpoint]:
        """The brokers in the order in which they are dialed."""
        addresses = self.session.addresses
        now = self.session.loop.time()
        is_lost = self.session.view.rebootstrap_due(now)

        def order(endpoint: BrokerEndpoint) -> tuple[bool, bool]:
            # A refusal ends the round. Brokers that have moved may have left their addresses to another cluster.
            is_former = is_lost and endpoint.origin is not Origin.BOOTSTRAP
            return endpoint.address in addresses.unaccepted, is_former

        return sorted(self._candidates(), key=order)

    def _free(self, candidates: list[BrokerEndpoint]) -> list[BrokerEndpoint]:
        if not candidates:
            return []
        free_at = [self.session.addresses.free_at(each.address) for each in candidates]
        now = self.session.loop.time()
        free = [candidate for candidate, at in zip(candidates, free_at, strict=True) if at <= now]
        return free or candidates[(first := free_at.index(min(free_at))) : first + 1]

    def _candidates(self) -> Iterator[BrokerEndpoint]:
        """The known brokers, then the bootstrap addresses; each kind in random order."""
        nodes = list(self.session.view.brokers.nodes)
        self.session.rng.shuffle(nodes)
        nodes.sort(key=lambda node: self._is_worse((node.host, node.port)))
        for node in nodes:
            yield BrokerEndpoint.advertised(node.host, node.port, node.id, node.advertised_by)
        known = {(node.host, node.port) for node in nodes}
        is_beginning = self._beginning is not None and not self._beginning.done()
        # The task of the new beginning dials them.
        for endpoint in () if nodes and is_beginning else self._bootstrap_servers():
            if endpoint.address not in known:
                yield endpoint

    def _bootstrap_servers(self) -> Iterator[BrokerEndpoint]:
        addresses = list(self.session.config.bootstrap_servers)
        self.session.rng.shuffle(addresses)
        addresses.sort(key=self._is_worse)
        for host, port in addresses:
            yield BrokerEndpoint.bootstrap(host, port)

    def _is_worse(self, address: tuple[str, int]) -> tuple[bool, bool]:
        return address in self.lacking, address == self._left

    def change(self) -> None:
        """The answer did not help: use another broker next time, if a connection to one can be opened."""
        known = self.session.view.brokers.nodes or self.session.config.bootstrap_servers
        if len(known) > 1 and self.connection is not None and not self.connection.in_flight:
            self._left = self.address
            self._is_to_change = True

    async def _change(self) -> None:
        addresses, now = self.session.addresses, self.session.loop.time()
        self._is_to_change = False
        if addresses.unaccepted and now < self._changed_at + _CHANGE_EVERY:
            return
        tried = {self.address, *addresses.unaccepted}
        others = [
            each
            for each in self._candidates()
            if each.address not in tried and addresses.free_at(each.address) <= now
        ]
        if others:
            self._changed_at = now
            await asyncio.wait((self._change_to(others),), timeout=_CHANGE_WITHIN)

    @property
    def _is_changing(self) -> bool:
        return self._changing is not None and not self._changing.done()

    def _change_to(self, others: list[BrokerEndpoint]) -> asyncio.Task[None]:
        """The task that goes on to one of these brokers; the one that is under way, if there is one."""
        if self._changing is None or self._changing.done():
            self._changing = asyncio.create_task(self._changed_to(others), name="aioproducer other broker")
        return self._changing

    async def _changed_to(self, others: list[BrokerEndpoint]) -> None:
        """A task of its own: others may not answer at all, and the present broker answers questions meanwhile."""
        former = self.connection
        try:
            endpoint, connection = await self._dial_one(others)
        except KafkaError:
            return
        if self.connection is former or not self.is_connected:
            self._use(endpoint, connection)
        else:
            connection.departure.leave()

    def give_up_on_its_broker(self) -> None:
        """The present broker lacks a needed feature: other brokers are preferred from now on."""
        self.lacking.add(self.address)
        # Another task may wait for an answer on this connection, which may name the other brokers.
        if self.connection is not None and not self.connection.in_flight:
            self.close()

    def close_if_idle(self, now: float, limit: float) -> None:
        """Close a connection without requests for so many seconds."""
        is_being_replaced = self.dialing.locked()
        if self.connection is not None and not is_being_replaced and is_idle(self.connection, now, limit):
            self.close()

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def end(self) -> None:
        """Close the connection, and give up the attempts to open another one."""
        for task in (self._changing, self._beginning):
            if task is not None:
                task.cancel()
        self._rounds.give_up()
        self.close()

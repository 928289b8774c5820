"""The addresses that are dialed: one attempt at a time each, and a growing pause after every one that led to nothing.

Senders and the control connection dial the same brokers. If each of them paused separately, a broker that is down would
be dialed as often as there are callers; so all of them share the facts about an address.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import math
from functools import partial
from typing import TYPE_CHECKING

import anyio
import attrs

from aioproducer._callers.copied import copied
from aioproducer._net.connecting.connection.ends import Ending
from aioproducer._net.connecting.dialing import (
    SOCKETS,
    Network,
    dial,
    is_refused_everywhere,
    longest_authentication,
)
from aioproducer._net.connecting.refusals import Attempt, Refusals, is_refusal
from aioproducer._net.connecting.renewal import SessionRenewal
from aioproducer._net.connecting.replacing import Replacement
from aioproducer._net.connecting.security import PLAINTEXT, CredentialsChanged, SecurityProtocol
from aioproducer._net.log import PacedWarning, log_of
from aioproducer._state.backoff import Backoff
from aioproducer._state.connecting.endpoint import Origin
from aioproducer.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    ConfigurationError,
    KafkaError,
    ProtocolError,
    StateError,
)
from aioproducer.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from random import Random

    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._state.connecting.endpoint import BrokerEndpoint
    from aioproducer.config import ProducerConfig


# Reasons of an AuthenticationError that a person removes, and a store that cannot be read: seconds until the next attempt.
_OF_IDENTITIES = frozenset(("certificate", "client_certificate", "server"))
_BEHIND_AN_IDENTITY = 1.0
_MOST_CHANGES = 3
# The settings that a running producer may get anew, and the classes of values that say what they give.
_CREDENTIALS = ("sasl_username", "sasl_password", "sasl_token_provider")
_LITERAL = (str, Secret)
_LOOK_AGAIN = 1.0
TELL_EVERY = 1.0
# Longer than any pause: an address that is dialed again after so long begins with the shortest.
FORGET_AFTER = 60.0
# Seconds after which the trouble of an address that no attempt confirms any more says nothing about the present.
TROUBLE_IS_PRESENT = 60.0
ONLY_ADVERTISED = "this address was told by the cluster (advertised.listeners), not by bootstrap_servers"


def _nothing(_connection: Connection) -> None:
    pass


def _is_same(one: object, other: object) -> bool:
    """Whether a setting gives the same as before. A file or function may give something else; it is asked nothing here."""
    if one is None or other is None:
        return one is other
    return type(one) is type(other) and type(one) in _LITERAL and one == other


@attrs.define(eq=False)
class Address:
    """The facts about one host and port.

    `failures` counts the attempts in a row that led to nothing. `is_reached`: the newest attempt opened a connection, and the
    broker neither closed it nor stopped answering.
    """

    host: str
    port: int
    dialing: asyncio.Lock = attrs.Factory(asyncio.Lock)
    failures: int = 0
    is_reached: bool = False
    not_before: float = -math.inf
    told_at: float = -math.inf
    warning: PacedWarning = attrs.Factory(PacedWarning)
    # Of the addresses of the host, those that refused the credentials, or did not answer them.
    tried_last: dict[str, None] = attrs.Factory(dict)
    # Since when it cannot be reached, and why; None where the newest attempt led to a connection, and it was not given up.
    trouble: tuple[float, KafkaError] | None = None
    # When that was seen last.
    troubled_at: float = -math.inf

    def cannot_be_reached(self, error: KafkaError, now: float) -> None:
        """An attempt has failed, or a connection was given up."""
        # First, for other threads.
        self.troubled_at = now
        self.trouble = (now if self.trouble is None else self.trouble[0], error)


class Addresses:
    """Dials for all callers that need a connection."""

    def __init__(
        self,
        config: ProducerConfig,
        loop: asyncio.AbstractEventLoop,
        rng: Random,
        security: SecurityProtocol = PLAINTEXT,
        network: Network = SOCKETS,
    ) -> None:
        self._config = config
        self._security = security
        self._network = network
        self._loop = loop
        self._rng = rng
        self._pause = Backoff(config.reconnect_backoff_ms / 1000, config.reconnect_backoff_max_ms / 1000)
        self._setup_timeout = Backoff(
            config.socket_connection_setup_timeout_ms / 1000,
            config.socket_connection_setup_timeout_max_ms / 1000,
        )
        self._refusals = Refusals(loop, rng)
        self._renewal = SessionRenewal(
            loop, rng, config.client_id, longest_authentication(config), self._refusals
        )
        # The attempts and the pauses that the end of the producer ends.
        self._under_way: set[anyio.CancelScope] = set()
        # The configuration whose credentials are presented, and the attempts that other ones may end.
        self._presented = config
        # How often other credentials were given than those that were presented: equal ones are no other.
        self.others = 0
        # The change that gave other ones last.
        self._newest_others = 0
        self._presenting: dict[Attempt, tuple[anyio.CancelScope, int]] = {}
        self._known: dict[tuple[str, int], Address] = {}
        self._open: dict[Connection, BrokerEndpoint] = {}
        self._replacement = Replacement(
            loop,
            rng,
            self._open,
            self._dial_successor,
            self.free_at,
            config.connections_max_idle_ms,
            log_of(config.client_id),
        )
        # The addresses that did not accept the credentials or certificates in the newest attempt, or could not be given them,
        # and since when. As long as there are any, connections that are open may be the last ones.
        self.unaccepted: dict[tuple[str, int], float] = {}
        # When an address accepted a connection last, and when the credentials changed last.
        self._accepted_at = -math.inf
        self._changed_at = -math.inf
        self._token_warning = PacedWarning()
        self._is_closed = False
        # When anything was answered over a connection that has ended.
        self._answered_at: float | None = None
        # The cluster's finalized features, by the newest that any broker said of them.
        self.features: Mapping[str, int] = {}
        self._features_epoch = -1
        # Effect, set by the engine: a connection has ended, and it was not this producer that left it.
        self.on_ended: Callable[[Connection], None] = _nothing

    def at(self, host: str, port: int) -> Address:
        """The facts about this address."""
        known = self._known.get((host, port))
        if known is None:
            known = self._known[host, port] = Address(host, port)
        return known

    def free_at(self, address: tuple[str, int]) -> float:
        """When this address may be dialed; infinite while it is being dialed."""
        return math.inf if self.at(*address).dialing.locked() else self.paused_until(address)

    def paused_until(self, address: tuple[str, int]) -> float:
        """The end of the pause of attempts at this address."""
        return max(self.at(*address).not_before, self._refusals.not_before(address))

    def is_refused(self, address: tuple[str, int]) -> bool:
        """Whether attempts at this address pause because credentials were refused."""
        return self._refusals.not_before(address) > self._loop.time()

    @property
    def changes(self) -> int:
        """How often the credentials have changed."""
        return self._refusals.changes

    def present_refusal(self) -> KafkaError | None:
        """The newest refusal since the credentials have changed, or were accepted."""
        since = max(self._accepted_at, self._changed_at)
        refused = {
            known.troubled_at: known.trouble[1]
            for known in self._known.values()
            if known.trouble is not None
            and known.troubled_at > since
            and is_refused_everywhere(known.trouble[1])
        }
        return copy.copy(refused[max(refused)]) if refused else None

    def has_refused_lately(self, address: tuple[str, int]) -> bool:
        """Whether this address does not accept the credentials or certificates.

        One that nothing is sent to is not dialed again, so its refusal does not count for long.
        """
        return address in self.unaccepted and self.paused_until(address) > self._loop.time() - FORGET_AFTER

    def are_not_accepted(self) -> bool:
        """Whether an address refuses, and none has accepted a connection since: no other one may be accepted."""
        return any(
            since >= self._accepted_at and self.has_refused_lately(one)
            for one, since in self.unaccepted.items()
        )

    async def dial_unless_refused(self, endpoint: BrokerEndpoint) -> Connection:
        """The same as `dial`. Where this address has refused the credentials, its error is raised again a second later.

        For callers that look for another broker then: the pause is up to 30 seconds, and others may dial this one in it.
        """
        address = self.at(*endpoint.address)
        trouble = address.trouble
        # A refusal of former credentials says nothing about the present ones.
        is_refusing = endpoint.address in self.unaccepted and address.troubled_at > self._changed_at
        if not is_refusing or trouble is None:
            return await self.dial(endpoint)
        with self.until_closed():
            return await self._dialed_in_time(endpoint, address, trouble[1])

    async def _dialed_in_time(
        self, endpoint: BrokerEndpoint, address: Address, known: KafkaError
    ) -> Connection:
        with anyio.move_on_after(_LOOK_AGAIN) as waiting:
            await address.dialing.acquire()
        if waiting.cancelled_caught:
            raise copy.copy(known)
        try:
            if (successor := self._replacement.take(endpoint)) is not None:
                return successor
            if self._refusals.not_before(endpoint.address) - self._loop.time() > _LOOK_AGAIN:
                await anyio.sleep(_LOOK_AGAIN)
                raise copy.copy(known)
            made = await self._attempted(endpoint, address)
        finally:
            address.dialing.release()
        return self._opened(endpoint, address, *made)

    @contextlib.contextmanager
    def until_closed(self) -> Iterator[None]:
        """Waiting in it ends with the producer, in StateError: it may be a task of the user's that waits."""
        self._require_open()
        with anyio.CancelScope() as scope:
            self._under_way.add(scope)
            try:
                yield
            finally:
                self._under_way.discard(scope)
        if scope.cancelled_caught:
            raise self._closed_error()

    async def dial(self, endpoint: BrokerEndpoint) -> Connection:
        """A new connection, when it is this caller's turn and the pause is over, or one that was opened for a user like it."""
        address = self.at(*endpoint.address)
        async with address.dialing:
            if (successor := self._replacement.take(endpoint)) is not None:
                return successor
            made = await self._attempted(endpoint, address)
        return self._opened(endpoint, address, *made)

    async def _dial_successor(self, endpoint: BrokerEndpoint) -> Connection:
        address = self.at(*endpoint.address)
        async with address.dialing:
            made = await self._attempted(endpoint, address)
        return self._opened(endpoint, address, *made)

    async def _attempted(self, endpoint: BrokerEndpoint, address: Address) -> tuple[Connection, int]:
        with self.until_closed():
            return await self._attempted_behind_its_pause(endpoint, address)

    async def _attempted_behind_its_pause(
        self, endpoint: BrokerEndpoint, address: Address
    ) -> tuple[Connection, int]:
        pause = address.not_before - self._loop.time()
        if pause > 0:
            await anyio.sleep(pause)
        setup_timeout = self._setup_timeout.after(address.failures, self._rng)
        try:
            return await self._dialed(endpoint, setup_timeout)
        except KafkaError as error:
            self._led_to_nothing(address, _least_pause(error))
            address.is_reached = False
            if self._is_only_advertised(endpoint, error):
                error.args = (f"{error}; {ONLY_ADVERTISED}",)
            address.cannot_be_reached(error, self._loop.time())
            self._tell(address, "cannot connect to a broker: %s", error, self._level_of(error, endpoint))
            self._replacement.note()
            raise

    def _level_of(self, error: KafkaError, endpoint: BrokerEndpoint) -> int:
        if not isinstance(error, AuthenticationError):
            return logging.WARNING
        if error.reason == "token":
            # One provider has failed, for all brokers.
            return self._token_warning.level(self._loop.time())
        # The refusal of an attempt at another broker, which was waited for: that attempt says so itself.
        return logging.WARNING if error.broker in (None, endpoint.name) else logging.DEBUG

    def _opened(
        self, endpoint: BrokerEndpoint, address: Address, connection: Connection, changes: int
    ) -> Connection:
        if self._is_closed:
            connection.close()
            self._require_open()
        address.is_reached = True
        address.trouble = None
        self.unaccepted.pop(endpoint.address, None)
        self._accepted_at = self._loop.time()
        if connection.versions.features_epoch > self._features_epoch:
            self.features = connection.versions.features
            self._features_epoch = connection.versions.features_epoch
        self._open[connection] = endpoint
        self._replacement.opened(connection, changes)
        connection.add_close_callback(partial(self._closed, address))
        again = self._security.authenticate_again or self._security.authenticate
        if again is not None:
            authentication = partial(again, endpoint, connection.versions)
            self._renewal.watch(connection, endpoint.address, authentication)
        return connection

    async def _dialed(self, endpoint: BrokerEndpoint, setup_timeout: float) -> tuple[Connection, int]:
        """A connection, and the number of replacements before it was begun."""
        # A provider of the user may change the credentials each time that it is asked for them.
        for number in range(_MOST_CHANGES):
            with contextlib.suppress(CredentialsChanged):
                async with self._refusals.attempt(endpoint.address) as attempt:
                    changes = self._replacement.changes
                    try:
                        with self._until_a_change(attempt, number):
                            connection = await dial(
                                endpoint,
                                self._config,
                                self._security.in_turn(attempt),
                                setup_timeout=setup_timeout,
                                network=self._network,
                                tried_last=self.at(*endpoint.address).tried_last,
                            )
                    except KafkaError as error:
                        self._note_unaccepted(endpoint.address, attempt, error)
                        raise
                    self._end_former(attempt)
                    return connection, changes
        raise BrokerUnavailableError(
            f"the credentials were changed during each of {_MOST_CHANGES} attempts", broker=endpoint.name
        )

    @contextlib.contextmanager
    def _until_a_change(self, attempt: Attempt, number: int) -> Iterator[None]:
        """An attempt that ends when other credentials are given: a broker may not answer the former ones at all.

        Where they change more often than brokers answer, a later attempt goes on, unless they were refused at one address of
        the host: the answer of another one is of no use then. It also ends when a broker has accepted the other ones, but for
        the last one: the brokers may be slow, and accept each of them.
        """
        with anyio.CancelScope() as scope:
            self._presenting[attempt] = (scope, number)
            try:
                yield
            finally:
                del self._presenting[attempt]
        if scope.cancelled_caught:
            raise CredentialsChanged

    def _end_former(self, accepted: Attempt) -> None:
        """Other credentials were accepted: no answer to former ones is waited for."""
        if accepted.changes < self._newest_others:
            return
        for attempt, (scope, number) in self._presenting.items():
            if attempt.has_begun and attempt.changes < self._newest_others and number < _MOST_CHANGES - 1:
                scope.cancel()

    def _note_unaccepted(self, address: tuple[str, int], attempt: Attempt, error: KafkaError) -> None:
        is_final = isinstance(error, AuthenticationError | ConfigurationError)
        if not attempt.has_begun and is_refusal(error):
            return  # that of another attempt, which this one has waited for
        since = self.unaccepted.pop(address, self._loop.time())
        # An attempt that has had its turn has reached its broker.
        if attempt.has_begun or is_final:
            self.unaccepted[address] = since

    def renew_all(self, but_for: Connection | None) -> None:
        """Open another connection in place of each other one, which is left then; returns at once."""
        self._replacement.renew(but_for)

    def lead_to(self, connection: Connection, endpoint: BrokerEndpoint) -> None:
        """The broker of this connection has this endpoint now: `dial()` gives a connection to it when that is open."""
        if connection in self._open:
            self._replacement.lead_to(connection, endpoint)

    def successor_of(self, connection: Connection) -> tuple[BrokerEndpoint, Connection] | None:
        """The connection that was opened in place of this one, for its user, and where it leads.

        The user asks for it when the connection has ended, whatever ended it; later, another caller may have it.
        """
        return self._replacement.take_for(connection)

    def leads_to(self, connection: Connection, endpoint: BrokerEndpoint) -> bool:
        """Whether a connection was opened to this address."""
        opened = self._open.get(connection)
        return opened is None or opened.address == endpoint.address

    def adopt_credentials(self, config: ProducerConfig) -> None:
        """Authenticate with the credentials of this configuration from now on, and replace the open connections."""
        self._security.adopt_credentials(config)
        # The refusals were those of the former ones.
        self._refusals.forget()
        self._changed_at = self._loop.time()
        former, self._presented = self._presented, config
        if not all(_is_same(getattr(former, name), getattr(config, name)) for name in _CREDENTIALS):
            self.others += 1
            self._newest_others = self._refusals.changes
            for attempt, (scope, number) in self._presenting.items():
                if attempt.is_refused or (number == 0 and attempt.has_begun):
                    scope.cancel()
        self._replacement.begin()

    async def reload_certificates(self) -> None:
        """Make the TLS context again, and replace the open connections; ConfigurationError if it cannot be made."""
        await self._security.reload_certificates()
        self._replacement.begin()

    def close(self) -> None:
        """Close all connections, also those that wait for their last answers, and open no others."""
        self._is_closed = True
        self._replacement.end()
        # The loop may have been closed first, and the attempts with it.
        if not self._loop.is_closed():
            for scope in self._under_way:
                scope.cancel()
        for connection in list(self._open):
            connection.close()

    def _require_open(self) -> None:
        # A call that asks for other producers' transactions may still be under way in a task of the user's.
        if self._is_closed:
            raise self._closed_error()

    def _closed_error(self) -> StateError:
        return StateError("the producer or the session was closed while this call went on")

    def forget_unused(self, now: float, told: Iterable[tuple[str, int]]) -> None:
        """Forget addresses that have no connection and were not called for a while: brokers come and go.

        `told`: the addresses of the metadata. One that has refused the credentials is not taken for one that never did.
        """
        opened = (endpoint.address for endpoint in self._open.values())
        used = {*opened, *told, *self._config.bootstrap_servers}
        for place, address in list(self._known.items()):
            is_idle = place not in used and not address.dialing.locked()
            if is_idle and address.not_before + FORGET_AFTER <= now:
                del self._known[place]
                self._refusals.forget_address(place)
                self.unaccepted.pop(place, None)

    def connected(self) -> set[tuple[str, int]]:
        """The addresses that a connection is open to. For any thread."""
        return {
            endpoint.address for connection, endpoint in copied(self._open.items()) if not connection.closed
        }

    def trouble_at(self, host: str, port: int) -> tuple[float, KafkaError] | None:
        """Since when this address cannot be reached, and why; None where nothing is known against it. For any thread.

        An address that nothing is sent to is not dialed either. A minute after the last attempt was due, its trouble is none of
        the present: it would keep a program whose probe says "not ready" from sending, so that it would stay as it is.
        """
        known = self._known.get((host, port))
        trouble = None if known is None else known.trouble
        if known is None or trouble is None or known.dialing.locked():
            return trouble
        seen = max(known.troubled_at, known.not_before, self._refusals.not_before((host, port)))
        return trouble if self._loop.time() < seen + TROUBLE_IS_PRESENT else None

    @property
    def answered_at(self) -> float | None:
        """When any broker answered anything last. For any thread."""
        moments = [self._answered_at, *(connection.answered_at for connection in copied(self._open))]
        return max((moment for moment in moments if moment is not None), default=None)

    def _is_only_advertised(self, endpoint: BrokerEndpoint, error: KafkaError) -> bool:
        """Whether this endpoint cannot be reached, while a bootstrap server can."""
        if endpoint.origin is not Origin.ADVERTISED or not isinstance(error, BrokerUnavailableError):
            return False
        bootstrap = self._config.bootstrap_servers  # named tuples: equal to an address
        known = (self._known.get(each) for each in bootstrap)
        return endpoint.address not in bootstrap and any(
            each is not None and each.is_reached for each in known
        )

    def _led_to_nothing(self, address: Address, least_pause: float = 0.0) -> None:
        pause = self._pause.after(address.failures, self._rng)
        address.not_before = self._loop.time() + max(pause, least_pause)
        address.failures += 1

    def _closed(self, address: Address, connection: Connection) -> None:
        del self._open[connection]
        self._replacement.ended(connection)
        if connection.answered_at is not None:
            self._answered_at = max(self._answered_at or -math.inf, connection.answered_at)
        # A peer that accepts connections and closes them, also in the middle of an answer, or that sends no valid
        # answers, is no better than a peer that refuses them.
        # Without answers (acks=0), it is enough that this producer has left it.
        was_left = connection.ending is Ending.LEFT
        was_useful = connection.answers > connection.answers_at_opening or was_left
        if was_useful and (was_left or not isinstance(connection.close_reason, ProtocolError)):
            address.failures = 0
        self._led_to_nothing(address)
        if connection.ending in (Ending.CUT, Ending.GIVEN_UP):
            address.is_reached = False
        if connection.ending is not Ending.LEFT:
            self._tell_the_end(address, connection)
            self.on_ended(connection)

    def _tell_the_end(self, address: Address, connection: Connection) -> None:
        if connection.ending is Ending.GIVEN_UP:
            if connection.close_reason is not None:
                address.cannot_be_reached(connection.close_reason, self._loop.time())
            self._tell(address, "the connection to a broker was given up: %s", connection.close_reason)
        else:
            # Brokers restart, and close idle connections: no fault yet.
            level = logging.DEBUG if connection.ending is Ending.IDLE else logging.INFO
            self._tell(address, "the connection to a broker ended: %s", connection.close_reason, level)

    def _tell(
        self, address: Address, text: str, error: KafkaError | None, level: int = logging.WARNING
    ) -> None:
        """Log the trouble of an address: a line a second at most, and a warning at longer intervals."""
        now = self._loop.time()
        if now < address.told_at + TELL_EVERY:
            level = logging.DEBUG
        elif level == logging.WARNING:
            level = address.warning.level(now)
        if level > logging.DEBUG:
            address.told_at = now
        log_of(self._config.client_id).log(level, text, error)


def _least_pause(error: KafkaError) -> float:
    """Seconds that an address is not dialed behind this error, however short the pauses of the settings are."""
    is_unproven = isinstance(error, AuthenticationError) and error.reason in _OF_IDENTITIES
    return _BEHIND_AN_IDENTITY if is_unproven or isinstance(error, ConfigurationError) else 0.0

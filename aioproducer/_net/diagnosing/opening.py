"""Opening a connection to one address, with the time of each step, and the step that failed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import anyio
import attrs

from aioproducer._net.connecting.connection.asking import ask
from aioproducer._net.connecting.dialing import SOCKETS, Attempts, Network, dial, meaning
from aioproducer._net.connecting.security import PLAINTEXT, SecurityProtocol
from aioproducer._net.diagnosing.peers import peer_at, presented_certificate
from aioproducer._state.connecting.allowed import require_allowed
from aioproducer._state.connecting.dialogue import Ask, Dialogue
from aioproducer._state.diagnosing.facts import Opening, Peer, Step, Tls
from aioproducer._wire.apis import SASL_HANDSHAKE
from aioproducer._wire.codec import decode_response
from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aioproducer.errors import AuthenticationError, KafkaError
from aioproducer.security.tls.certificate import read_certificate

if TYPE_CHECKING:
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._state.connecting.endpoint import BrokerEndpoint
    from aioproducer._state.connecting.opening import BrokerVersions
    from aioproducer._state.connecting.sessions import AuthenticatedSession
    from aioproducer.config import ProducerConfig

__all__ = ["Door"]

# The mechanisms that a broker offers are part of its answer to any other one.
_NO_MECHANISM = "NONE-OF-THESE"


class Logins:
    """The authentications of an examination: until the answer to the first one is known, there is no other.

    Refused credentials are not tried again: many attempts may lock an account. A broker that does not answer leaves the
    question open, and the next one is asked it.
    """

    def __init__(self) -> None:
        self._are_accepted = False
        self._present: asyncio.Event | None = None
        self.refusal: AuthenticationError | None = None

    def begin(self) -> bool:
        """Whether an authentication may begin now; then `ended()` must follow."""
        if self._present is not None or self.refusal is not None:
            return False
        if not self._are_accepted:
            self._present = asyncio.Event()
        return True

    def ended(self, error: BaseException | None) -> None:
        """An authentication is over."""
        if isinstance(error, AuthenticationError) and error.reason in ("credentials", "token"):
            self.refusal = error
        self._are_accepted = self._are_accepted or error is None
        if self._present is not None:
            self._present.set()
            self._present = None

    async def answered(self) -> None:
        """Wait for the end of the present authentication."""
        if self._present is not None:
            await self._present.wait()


class _Postponed(KafkaError):  # noqa: N818  # no failure: it ends an opening, which may begin again
    """The credentials are being tried elsewhere, or were refused there."""


@attrs.frozen
class Door:
    """The ways to open connections, which all attempts of an examination share.

    With `only_tcp` nothing is said over a connection: the settings of its security cannot be used.
    """

    config: ProducerConfig
    security: SecurityProtocol
    logins: Logins = attrs.field(factory=Logins)
    only_tcp: bool = False

    async def open(
        self, endpoint: BrokerEndpoint, address: str, limit: Callable[[], float]
    ) -> tuple[Opening, Connection | None]:
        """Open a connection to this address of the endpoint within `limit()` seconds; None where a step fails.

        The wait for an authentication elsewhere is not counted. A failure is followed up: the protocol at the port, the
        certificate, the mechanisms that the broker offers.
        """
        while True:
            try:
                return await self._open(endpoint, address, limit())
            except _Postponed:
                await self.logins.answered()

    async def _open(
        self, endpoint: BrokerEndpoint, address: str, limit: float
    ) -> tuple[Opening, Connection | None]:
        opening = Opening(endpoint.host, endpoint.port, address)
        try:
            endpoint.require_valid()
            require_allowed(endpoint, self.config.allowed_brokers, self.config.bootstrap_servers)
        except KafkaError as error:
            opening.failed, opening.error = Step.DNS, error
            return opening, None
        if self.only_tcp:
            await self._connect(opening, limit)
            return opening, None
        connection = await self._attempt(opening, endpoint, limit)
        if connection is None and opening.failed is not None:
            with anyio.move_on_after(limit / 2):
                await self._follow_up(opening, endpoint, limit / 2)
        return opening, connection

    async def dial(self, endpoint: BrokerEndpoint, limit: float, address: str | None = None) -> Connection:
        """A connection to this address of the endpoint, or to any of them."""
        return await dial(
            endpoint, self.config, self.security, setup_timeout=limit, network=_network_of(address)
        )

    async def offered_at(
        self, endpoint: BrokerEndpoint, limit: float, address: str | None = None
    ) -> tuple[str, ...] | None:
        """The mechanisms of SASL that a broker offers, none if it cannot be asked; None where it says that the listener has no SASL."""
        without = attrs.evolve(self.security, authenticate=None)
        with contextlib.suppress(OSError, KafkaError):
            connection = await dial(
                endpoint, self.config, without, setup_timeout=limit, network=_network_of(address)
            )
            try:
                version = connection.versions.choose(SASL_HANDSHAKE)
                frame = await ask(
                    connection, Ask(SaslHandshakeRequest(_NO_MECHANISM), version), timeout=limit
                )
                answer = decode_response(SaslHandshakeResponse, version, frame)[1]
                has_none = answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
                return None if has_none else tuple(answer.mechanisms)
            finally:
                connection.close()
        return ()

    async def _connect(self, opening: Opening, limit: float) -> None:
        trace = _Trace(opening, self.logins)
        try:
            async with asyncio.timeout(limit):
                (await _connected_socket(opening.address, opening.port)).close()
        except OSError as error:
            opening.failed, opening.error = Step.TCP, error
        else:
            trace.passed()
            opening.unusable = "the configuration cannot be used"

    async def _attempt(self, opening: Opening, endpoint: BrokerEndpoint, limit: float) -> Connection | None:
        trace = _Trace(opening, self.logins)
        traced = attrs.evolve(self.security, authenticate=trace.authentication(self.security.authenticate))
        attempts = Attempts(endpoint, self.config, traced, trace, longest=limit)
        try:
            connection = await attempts.connect(opening.address, limit)
        except _Postponed:
            if self.logins.refusal is None:
                raise
            opening.sasl_skipped = "the credentials were refused elsewhere, and not tried again"
            return None
        except (OSError, KafkaError) as error:
            opening.failed, opening.error = trace.step, meaning(error, endpoint, self.security)
            opening.has_answered = trace.connection is not None and trace.connection.answers > 0
            opening.verify_code = getattr(error, "verify_code", None)
            if isinstance(opening.error, AuthenticationError) and "certificate" in (
                opening.error.reason or ""
            ):
                opening.failed = Step.TLS  # with TLS 1.3 the refusal arrives after the handshake
            return None
        trace.passed()
        session = connection.gate.session
        opening.versions = connection.versions
        opening.session_lifetime = session.lifetime if session is not None and session.has_end else None
        return connection

    async def _follow_up(self, opening: Opening, endpoint: BrokerEndpoint, limit: float) -> None:
        over_tls = self.security.tls_context is not None
        if opening.failed is Step.SASL:
            offered = await self.offered_at(endpoint, limit, opening.address)
            opening.offered = offered or ()
            if offered is None:
                opening.peer = Peer.NO_SASL
        elif opening.has_answered or opening.failed is Step.TCP:
            return
        elif opening.verify_code is None:
            opening.peer = await peer_at(opening.address, opening.port, endpoint.server_name, limit)
            if (
                over_tls
                and opening.peer not in (Peer.TLS, Peer.HTTPS, Peer.HTTP)
                and await self._is_kafka_without_tls(endpoint, opening, limit)
            ):
                opening.peer = Peer.KAFKA
            if opening.peer is Peer.CLOSING and isinstance(opening.error, TimeoutError):
                # A slow broker: it left the question of Kafka open, and refused those of other protocols at once.
                opening.peer = Peer.SILENT
        else:
            opening.certificate = await presented_certificate(
                opening.address, opening.port, endpoint.server_name
            )

    async def _is_kafka_without_tls(self, endpoint: BrokerEndpoint, opening: Opening, limit: float) -> bool:
        with contextlib.suppress(OSError, KafkaError):
            attempts = Attempts(endpoint, self.config, PLAINTEXT, SOCKETS)
            (await attempts.connect(opening.address, limit)).close()
            return True
        return False


class _Trace:
    """The network and the authentication of one opening, which note the steps that were passed."""

    def __init__(self, opening: Opening, logins: Logins) -> None:
        self._opening = opening
        self._logins = logins
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self.step = Step.TCP
        self.connection: Connection | None = None

    def passed(self, following: Step | None = None) -> None:
        """The present step is passed; `following` begins."""
        now = self._loop.time()
        self._opening.seconds[self.step] = now - self._since
        self._since = now
        if following is not None:
            self.step = following

    async def look_up(self, host: str, port: int) -> list[Any]:
        """Ask the system's resolver."""
        return await SOCKETS.look_up(host, port)

    async def create_connection(
        self, make: Callable[[], Connection], address: str, port: int, **tls: Any
    ) -> tuple[asyncio.BaseTransport, Connection]:
        """Open a TCP connection, then the session of TLS on it."""
        # The context of TLS was made since the opening began.
        self._since = self._loop.time()
        connected = await _connected_socket(address, port)
        self.passed(Step.TLS if tls else Step.PROTOCOL)
        # From here on the socket is the transport's.
        transport, connection = await self._loop.create_connection(make, sock=connected, **tls)
        self.connection = connection
        if tls:
            self.passed(Step.PROTOCOL)
            self._opening.tls = _tls_of(transport.get_extra_info("ssl_object"))
        return transport, connection

    def authentication(
        self, authenticate: Callable[[BrokerEndpoint, BrokerVersions], Dialogue[AuthenticatedSession]] | None
    ) -> Callable[[BrokerEndpoint, BrokerVersions], Dialogue[AuthenticatedSession]] | None:
        """The same authentication, noted; None where there is none."""
        if authenticate is None:
            return None
        begin = authenticate

        def noted(endpoint: BrokerEndpoint, versions: BrokerVersions) -> Dialogue[AuthenticatedSession]:
            self._opening.versions = versions
            self.passed(Step.SASL)
            if not self._logins.begin():
                raise _Postponed("another authentication is under way")
            error: BaseException | None = None
            try:
                return (yield from begin(endpoint, versions))
            except BaseException as raised:
                error = raised
                raise
            finally:
                self._logins.ended(error)
                del error

        return noted


class _OneAddress:
    """The network of the system, in which each name has this address."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def look_up(self, _host: str, port: int) -> list[Any]:
        """The address, in the form of `socket.getaddrinfo`."""
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 0, "", (self._address, port))]

    async def create_connection(
        self, make: Callable[[], Connection], address: str, port: int, **tls: Any
    ) -> tuple[asyncio.BaseTransport, Connection]:
        """Open a TCP connection."""
        return await SOCKETS.create_connection(make, address, port, **tls)


def _network_of(address: str | None) -> Network:
    return SOCKETS if address is None else _OneAddress(address)


async def _connected_socket(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connected = socket.socket(family, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, (address, port))
    except BaseException:
        connected.close()
        raise
    return connected


def _tls_of(session: ssl.SSLObject | None) -> Tls | None:
    if session is None:
        return None
    cipher = session.cipher()
    chain = (read_certificate(der) for der in _chain_of(session))
    return Tls(
        session.version() or "",
        cipher[0] if cipher else "",
        tuple(certificate for certificate in chain if certificate is not None),
    )


def _chain_of(session: ssl.SSLObject) -> Iterator[bytes]:
    verified = getattr(session, "get_verified_chain", None)  # from Python 3.13 on
    if verified is not None:
        yield from verified()
        return
    own = session.getpeercert(binary_form=True)
    if own is not None:
        yield own

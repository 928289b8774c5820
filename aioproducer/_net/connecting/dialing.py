"""Opening a connection to a broker: look its host up, try each address, agree on versions, and authenticate.

All addresses of a host name are tried in turn (KIP-602). The remaining time is shared evenly among the remaining
addresses, so that an address without an answer does not prevent the next attempts. An authentication does not count: it waits
for token providers and directories, which are as slow at each address.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol, cast

import anyio
import attrs

from aioproducer._net.connecting.beside import first_success
from aioproducer._net.connecting.connection.connection import Connection
from aioproducer._net.connecting.conversing import converse, in_a_thread
from aioproducer._net.connecting.security import PLAINTEXT, CredentialsChanged, SecurityProtocol
from aioproducer._state.connecting.allowed import require_allowed
from aioproducer._state.connecting.endpoint import BrokerEndpoint, joined
from aioproducer._state.connecting.opening import BrokerVersions, Opened, ask_versions
from aioproducer._state.connecting.sessions import AuthenticatedSession
from aioproducer.config import ProducerConfig
from aioproducer.errors import AuthenticationError, BrokerUnavailableError, KafkaError, ProtocolError
from aioproducer.security.tls.failures import tls_failure

__all__ = [
    "SOCKETS",
    "SOFTWARE_VERSION",
    "Attempts",
    "Network",
    "dial",
    "is_refused_everywhere",
    "meaning",
    "resolve",
]

# Told to brokers for their statistics of clients (KIP-511). A test compares it with pyproject.toml.
SOFTWARE_VERSION = "0.2.0.dev20261123"

# The peer of an idle connection is asked for a sign of life every minute. Without one it is given up after two more,
# or sooner where TCP_USER_TIMEOUT is known, which then decides.
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPALIVE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 6))


# Reasons of an AuthenticationError that every address of the host would give; more attempts may lock the account.
_OF_ALL_ADDRESSES = frozenset(("credentials", "mechanism", "token"))

# Seconds. With a long request_timeout_ms, as some services advise, a commit has time for another attempt where one gets no answer.
_LONGEST_AUTHENTICATION = 30.0

_NO_KAFKA = "no answer to the first request; its listener may want TLS, or is no Kafka"

# asyncio's limit of 512 KiB for TLS costs more than twice the processor time for each byte.
_TLS_WRITE_LIMIT = 131_072


class Network(Protocol):
    """The network that connections are opened in."""

    async def look_up(self, host: str, port: int) -> list[Any]:
        """The addresses of a host, in the form of `socket.getaddrinfo`."""

    async def create_connection(
        self, make: Callable[[], Connection], address: str, port: int, **tls: Any
    ) -> tuple[asyncio.BaseTransport, Connection]:
        """Open a transport to this address, as `loop.create_connection` does."""


class Sockets:
    """The network of the system."""

    async def look_up(self, host: str, port: int) -> list[Any]:
        """Ask the system's resolver."""
        return await look_up(host, port)

    async def create_connection(
        self, make: Callable[[], Connection], address: str, port: int, **tls: Any
    ) -> tuple[asyncio.BaseTransport, Connection]:
        """Open a TCP connection."""
        return await asyncio.get_running_loop().create_connection(make, address, port, **tls)


SOCKETS: Network = Sockets()


async def dial(
    endpoint: BrokerEndpoint,
    config: ProducerConfig,
    security: SecurityProtocol = PLAINTEXT,
    *,
    setup_timeout: float | None = None,
    network: Network = SOCKETS,
    tried_last: dict[str, None] | None = None,
) -> Connection:
    """A connection to this broker, ready for requests.

    It has `setup_timeout` seconds, by default `socket_connection_setup_timeout_ms`, and each authentication has the rest of
    `longest_authentication`. Where one takes long, the next address is tried beside it, and those that have failed are tried again.
    BrokerUnavailableError lists the error of each address; it is a ProtocolError if a peer answered that is no usable broker.

    `tried_last` has the addresses of this host where a broker refused the credentials, or did not answer them. It is kept here.
    """
    endpoint.require_valid()
    require_allowed(endpoint, config.allowed_brokers, config.bootstrap_servers)
    limit = config.socket_connection_setup_timeout_ms / 1000 if setup_timeout is None else setup_timeout
    attempts = Attempts(endpoint, config, security, network)
    return await _Dial(attempts, limit, {} if tried_last is None else tried_last).connection()


def longest_authentication(config: ProducerConfig) -> float:
    """Seconds for the versions and the authentication of a connection: those of a request, and 30 at most.

    A commit waits for it, and its own time may be a minute: behind an authentication without an answer another one fits in.
    """
    return min(config.request_timeout_ms / 1000, _LONGEST_AUTHENTICATION)


class _Dial:
    """The attempts at the addresses of one host."""

    def __init__(self, attempts: Attempts, limit: float, tried_last: dict[str, None]) -> None:
        self._attempts = attempts
        # Seconds for the rest of the addresses, of which there are so many.
        self._left = limit
        self._remaining = 0
        self._share = 0.0
        self._began = math.inf
        self._tried_last = tried_last
        # The newest one of each address.
        self._failures: dict[str, Exception] = {}
        self._refusal: Exception | None = None
        # The attempts that go on.
        self._under_way: list[str] = []

    async def connection(self) -> Connection:
        """The connection of the first address that gives one."""
        endpoint, loop = self._attempts.endpoint, asyncio.get_running_loop()
        deadline = loop.time() + self._left
        found = await resolve(endpoint, self._left, self._attempts.network)
        addresses = _in_order(found, self._tried_last)
        self._left, self._remaining = deadline - loop.time(), len(addresses)
        attempts = [partial(self._attempt, address) for address in addresses]
        made = await first_success(attempts, self._left, self._failed, Connection.close)
        if made is not None:
            return made
        if self._refusal is not None:
            raise self._refusal
        raise _failed(endpoint.name, self._failures) from [*self._failures.values()][-1]

    def _next_share(self) -> float:
        """The seconds of the next address: an even share of what those before it have left of theirs.

        One that is tried again, beside others that take long, has as long as the last one, and a second at least.
        """
        if self._remaining == 0:
            return max(self._share, 1.0)
        now = asyncio.get_running_loop().time()
        self._left -= max(0.0, min(self._share, now - self._began))
        self._share, self._began = max(0.0, self._left) / self._remaining, now
        self._remaining -= 1
        return self._share

    async def _attempt(self, address: str) -> Connection:
        share = self._next_share()
        for silent in self._under_way:
            self._try_last(silent)
        self._under_way.append(address)
        try:
            connection = await self._attempts.connect(address, share)
        except (OSError, AuthenticationError, ProtocolError) as error:
            raise _AttemptFailed(address, error) from None
        finally:
            self._under_way.remove(address)
        self._tried_last.pop(address, None)
        return connection

    def _failed(self, attempt: Exception) -> bool:
        if not isinstance(attempt, _AttemptFailed):
            raise attempt
        address, error = attempt.address, attempt.error
        failure = meaning(error, self._attempts.endpoint, self._attempts.security)
        if is_refused_everywhere(failure):
            # An attempt at each address may lock the account. The next one begins at another address of the host.
            if isinstance(error, AuthenticationError) and error.code is not None:
                self._try_last(address)
            self._refusal = self._refusal or error
            return False
        place = joined(address, self._attempts.endpoint.port)
        self._failures.pop(place, None)
        self._failures[place] = failure.with_traceback(None)
        return True

    def _try_last(self, address: str) -> None:
        self._tried_last.pop(address, None)
        self._tried_last[address] = None


class _AttemptFailed(Exception):  # noqa: N818  # it has the error
    def __init__(self, address: str, error: Exception) -> None:
        super().__init__(address)
        self.address = address
        self.error = error


def is_refused_everywhere(error: Exception) -> bool:
    """Whether each address, and each broker, would give this error."""
    return isinstance(error, AuthenticationError) and error.reason in _OF_ALL_ADDRESSES


async def resolve(endpoint: BrokerEndpoint, limit: float, network: Network) -> list[str]:
    """The host's addresses, in the order in which the resolver gives them."""
    host, broker = endpoint.host, endpoint.name
    if _is_address(host):
        return [host]
    try:
        with anyio.fail_after(limit):
            found = await network.look_up(host, endpoint.port)
    except TimeoutError:
        raise _unresolved(broker, f"the name server did not answer within {limit:g} s") from None
    except (OSError, ValueError) as error:  # ValueError: not encodable as a name, or a null byte in it
        raise _unresolved(broker, _reason(error)) from error.with_traceback(None)
    addresses = addresses_in(found)
    if not addresses:
        raise _unresolved(broker, "it has no address")
    return addresses


def addresses_in(found: list[Any]) -> list[str]:
    """The addresses that a look-up found, each once."""
    families = (socket.AF_INET, socket.AF_INET6)
    return list(dict.fromkeys(_address_of(place) for family, _, _, _, place in found if family in families))


def _in_order(addresses: list[str], tried_last: dict[str, None]) -> list[str]:
    """The addresses in the order in which they are tried: of those that come last, the one that came first there."""
    for former in tried_last.keys() - set(addresses):
        del tried_last[former]
    return [*(address for address in addresses if address not in tried_last), *tried_last]


async def look_up(host: str, port: int) -> list[Any]:
    """Ask the resolver. The look-up of asyncio would share the default executor with the program's blocking jobs."""
    return await in_a_thread(partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))


@attrs.frozen
class Attempts:
    """The attempts at the addresses of one broker."""

    endpoint: BrokerEndpoint
    config: ProducerConfig
    security: SecurityProtocol
    network: Network
    # Seconds of one attempt in all.
    longest: float = math.inf

    async def connect(self, address: str, limit: float) -> Connection:
        """A connection that is ready for requests: within `limit` seconds, and the time of the authentication.

        Code of the user and of other packages may raise anything. Such an error ends this attempt alone, and its text and its
        frames, which may have a secret, are not kept.
        """
        try:
            return await self._ready(address, limit)
        except (OSError, KafkaError, CredentialsChanged):
            raise
        except Exception as error:  # noqa: BLE001  # see above
            kind = type(error).__name__
        raise BrokerUnavailableError(f"the attempt raised {kind}", broker=self.endpoint.name)

    async def _ready(self, address: str, limit: float) -> Connection:
        loop = asyncio.get_running_loop()
        began = loop.time()
        connection = await self._connected(address, limit)
        # For the versions and the authentication together.
        answered_until = min(loop.time() + self._answer_timeout, began + self.longest)
        try:
            versions = await self._versions(connection, min(began + limit, answered_until), limit)
            connection.opened(Opened(versions, await self._session(connection, versions, answered_until)))
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def _answer_timeout(self) -> float:
        return longest_authentication(self.config)

    async def _versions(self, connection: Connection, until: float, limit: float) -> BrokerVersions:
        name, surplus = self.endpoint.name, connection.remarks.surplus
        limit = min(limit, self._answer_timeout)
        with _named(connection, limit):
            asking = ask_versions(name, SOFTWARE_VERSION, surplus)
            return await converse(connection, asking, timeout=until - asyncio.get_running_loop().time())

    async def _session(
        self, connection: Connection, versions: BrokerVersions, until: float
    ) -> AuthenticatedSession | None:
        authenticate = self.security.authenticate
        if authenticate is None:
            return None
        with _named(connection, min(self._answer_timeout, self.longest)):
            exchange = authenticate(self.endpoint, versions)
            return await converse(connection, exchange, timeout=until - asyncio.get_running_loop().time())

    async def _connected(self, address: str, limit: float) -> Connection:
        loop = asyncio.get_running_loop()
        with anyio.move_on_after(limit):
            transport, connection = await self.network.create_connection(
                lambda: Connection(self.endpoint.name, self.config.client_id, loop),
                address,
                self.endpoint.port,
                **await _tls_options(self.endpoint, self.security),
            )
            _tune(transport, self.config)
            if self.security.tls_context is not None:
                cast("asyncio.WriteTransport", transport).set_write_buffer_limits(high=_TLS_WRITE_LIMIT)
            return connection
        raise TimeoutError(f"no connection (within {limit:.3g} s)")


@contextlib.contextmanager
def _named(connection: Connection, limit: float) -> Iterator[None]:
    """The words of a time limit say how far the connection came."""
    try:
        yield
    except TimeoutError as error:
        silence = str(error) if connection.answers else _NO_KAFKA
        raise TimeoutError(f"connected, but {silence} (within {limit:.3g} s)") from None


async def _tls_options(endpoint: BrokerEndpoint, security: SecurityProtocol) -> dict[str, Any]:
    if security.tls_context is None:
        return {}
    return {"ssl": await security.tls_context(), "server_hostname": endpoint.server_name}


def _tune(transport: asyncio.BaseTransport, config: ProducerConfig) -> None:
    # None for a transport without a socket; OSError for an option that this kind of socket does not have.
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    for level, option, value in _socket_options(config):
        with contextlib.suppress(OSError):
            sock.setsockopt(level, option, value)


def _socket_options(config: ProducerConfig) -> Iterator[tuple[int, int, int]]:
    yield socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1
    yield socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
    # Otherwise the kernel goes on for a quarter of an hour with bytes that a vanished peer does not acknowledge.
    for name, value in (*_KEEPALIVE, ("TCP_USER_TIMEOUT", config.request_timeout_ms)):
        option = getattr(socket, name, None)
        if option is not None:
            yield socket.IPPROTO_TCP, option, value
    for option, size in (
        (socket.SO_SNDBUF, config.send_buffer_bytes),
        (socket.SO_RCVBUF, config.receive_buffer_bytes),
    ):
        if size > 0:  # -1: what the system thinks best
            yield socket.SOL_SOCKET, option, size


def _address_of(place: tuple[Any, ...]) -> str:
    """The address in a result of `getaddrinfo`; the last number of one of IPv6 is the zone of a link-local address."""
    zone = place[3] if len(place) > 3 else 0
    return f"{place[0]}%{zone}" if zone else str(place[0])


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host  # a zone has to be looked up


def _unresolved(broker: str, why: str) -> BrokerUnavailableError:
    return BrokerUnavailableError(f"the broker's host name cannot be resolved: {why}", broker=broker)


def meaning(error: Exception, endpoint: BrokerEndpoint, security: SecurityProtocol) -> Exception:
    """The error, or the meaning that it has for TLS."""
    # With TLS 1.3, a broker refuses the certificate of a client after the handshake, as the end of the connection.
    cause = error.cause if isinstance(error, BrokerUnavailableError) else error
    if security.tls_context is None or cause is None or isinstance(cause, KafkaError):
        return error
    return tls_failure(cause, endpoint.server_name) or error


def _failed(broker: str, failures: dict[str, Exception]) -> KafkaError:
    # The error of an address may name the broker at its end, as the whole does.
    named = f" (broker {broker})"
    listed = "; ".join(f"{place}: {_reason(error).removesuffix(named)}" for place, error in failures.items())
    for error in failures.values():
        if isinstance(error, AuthenticationError):
            return AuthenticationError(
                f"cannot open a connection: {listed}",
                reason=error.reason,
                mechanism=error.mechanism,
                code=error.code,
                broker=broker,
            )
    kind = (
        ProtocolError
        if any(isinstance(error, ProtocolError) for error in failures.values())
        else BrokerUnavailableError
    )
    return kind(f"cannot open a connection: {listed}", broker=broker)


def _reason(error: Exception) -> str:
    """The system's words without Python's; ours as they are."""
    number = getattr(error, "errno", None)
    # The resolver and OpenSSL have numbers of their own.
    if isinstance(error, socket.gaierror | ssl.SSLError) or not isinstance(number, int):
        return (getattr(error, "strerror", None) or str(error)) or type(error).__name__
    return os.strerror(number)

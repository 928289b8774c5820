"""Dialing over TLS: the advertised name is sent to the broker and checked, and each failure has its error."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import attrs
import pytest

from aioproducer._net.connecting.dialing import dial
from aioproducer._net.connecting.security import SecurityProtocol
from aioproducer._net.tls.context import make_context
from aioproducer._state.connecting.dialogue import Dialogue, Now
from aioproducer.config import ProducerConfig
from aioproducer.errors import AuthenticationError, KafkaError, ProtocolError
from aioproducer.secret import Secret
from aioproducer.security.tls.settings import PemIdentity, PemText, TlsSettings
from tests.certificates import Authority, Issued
from tests.connection.peer import Peer, Wire, at

CONFIG = ProducerConfig("localhost:9092", client_id="orders")


@pytest.fixture(autouse=True)
def resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name is an address of this machine."""

    async def look_up(_host: str, port: int) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr("aioproducer._net.connecting.dialing.look_up", look_up)


def trusting(authority: Authority, **settings: Any) -> SecurityProtocol:
    """A client that trusts it."""
    trust = PemText("ssl_truststore_certificates", authority.own.certificate.read_text())
    context = make_context(TlsSettings(trust, **settings))

    async def tls_context() -> ssl.SSLContext:
        return context

    return SecurityProtocol(tls_context)


@attrs.define
class Listener:
    """A TLS listener: the names that clients ask for (SNI), and how many got as far as a request."""

    port: int = 0
    names: list[str | None] = attrs.field(factory=list)
    opened: int = 0

    async def serve(self, wire: Wire) -> None:
        """Open the connection."""
        await wire.open()
        self.opened += 1
        await wire.until_closed()


@asynccontextmanager
async def listening(context: ssl.SSLContext | None) -> AsyncIterator[Listener]:
    """A listener with this context; without one it is a plaintext listener."""
    listener = Listener()
    if context is not None:
        context.sni_callback = lambda _socket, name, _context: listener.names.append(name)
    peer = Peer(listener.serve)
    server = await asyncio.start_server(peer._serve, "127.0.0.1", 0, ssl=context)
    peer._server = server
    listener.port = server.sockets[0].getsockname()[1]
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the broker's end complains
    try:
        yield listener
    finally:
        await peer.stop()


async def test_the_advertised_name_is_sent_and_checked(authority: Authority, broker_identity: Issued) -> None:
    """The address is dialed, the name goes to the broker (SNI) and must be in its certificate (S02, S03)."""
    async with listening(broker_identity.context_of_broker()) as listener:
        connection = await dial(at("localhost.", listener.port, 3), CONFIG, trusting(authority))
        assert connection.versions.choose(0) == 13
        assert listener.names == ["localhost"]
        connection.close()


async def test_large_writes_are_held_back_early(authority: Authority, broker_identity: Issued) -> None:
    """The limit of asyncio for TLS costs processor time."""
    async with listening(broker_identity.context_of_broker()) as listener:
        connection = await dial(at("localhost", listener.port), CONFIG, trusting(authority))
        assert connection.transport is not None
        assert connection.transport.get_write_buffer_limits()[1] == 131_072
        connection.close()


async def failure(
    listener: Listener | Refusing, security: SecurityProtocol, host: str = "localhost"
) -> KafkaError:
    """The error of a dial that the broker saw no request of."""
    with pytest.raises(KafkaError) as raised:
        await dial(at(host, listener.port, 3), CONFIG, security)
    return raised.value


@pytest.mark.parametrize(
    ("extensions", "host", "told"),
    [
        (("subjectAltName=DNS:elsewhere",), "localhost", "is not for the host name localhost"),
        (("subjectAltName=DNS:*.test",), "a.b.test", "is not for the host name a.b.test"),
        (("subjectAltName=DNS:localhost",), "127.0.0.1", "is not for the address 127.0.0.1"),
        (
            ("basicConstraints=CA:FALSE",),
            "localhost",
            "is not for the host name localhost",
        ),  # only a common name
        (("subjectAltName=DNS:localhost", "extendedKeyUsage=clientAuth"), "localhost", "is not for servers"),
    ],
)
async def test_a_certificate_that_is_refused(
    authority: Authority, extensions: tuple[str, ...], host: str, told: str
) -> None:
    """The error names the fault and the remedy; the broker gets no request (S03, S24)."""
    issued = authority.issue("refused", *extensions, subject="/CN=localhost")
    async with listening(issued.context_of_broker()) as listener:
        error = await failure(listener, trusting(authority), host)
        assert isinstance(error, AuthenticationError)
        assert error.reason == "certificate"
        assert told in str(error)
        assert listener.opened == 0


@pytest.mark.parametrize(("signs_itself", "told"), [(False, "unknown authority"), (True, "signs itself")])
async def test_an_unknown_authority(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory, signs_itself: bool, told: str
) -> None:
    """Of another authority, or of none."""
    other = Authority.make(tmp_path_factory.mktemp("other"))
    issued = other.own if signs_itself else other.issue("broker")
    async with listening(issued.context_of_broker()) as listener:
        error = await failure(listener, trusting(authority))
        assert isinstance(error, AuthenticationError)
        assert (error.reason, listener.opened) == ("certificate", 0)
        assert told in str(error)


def presenting(authority: Authority, issued: Issued) -> SecurityProtocol:
    """A client with a certificate of its own."""
    key, certificate = Secret(issued.key.read_text()), issued.certificate.read_text()
    return trusting(authority, identity=PemIdentity("ssl_keystore_key", key, certificate))


async def test_a_broker_that_accepts_a_certificate(
    authority: Authority, broker_identity: Issued, client_identity: Issued
) -> None:
    """Both sides prove their identity."""
    async with listening(broker_identity.context_of_broker(authority.own.certificate)) as listener:
        security = presenting(authority, client_identity)
        (await dial(at("localhost", listener.port), CONFIG, security)).close()
        assert listener.opened == 1


class Refusing:
    """A listener whose handshakes fail. It is a thread: the servers of asyncio close without the alert that says why."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        # In another thread: the loop may close the connection in a later turn, and this one waits for that.
        await asyncio.to_thread(self._thread.join, 30)
        self._socket.close()

    def _serve(self) -> None:
        accepted, _ = self._socket.accept()
        with (
            accepted,
            self._context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False) as wrapped,
        ):
            with contextlib.suppress(ssl.SSLError):
                wrapped.do_handshake()
            # Unread bytes would turn the end into a reset, which overtakes the alert.
            with contextlib.suppress(OSError, ValueError):
                bare = socket.socket(fileno=wrapped.detach())
                with bare:
                    bare.shutdown(socket.SHUT_WR)
                    while bare.recv(65536):
                        pass


@pytest.mark.parametrize(("is_foreign", "told"), [(False, "CERTIFICATE_REQUIRED"), (True, "UNKNOWN_CA")])
async def test_a_broker_that_refuses_the_client(
    authority: Authority,
    broker_identity: Issued,
    tmp_path_factory: pytest.TempPathFactory,
    is_foreign: bool,
    told: str,
) -> None:
    """With TLS 1.3 it refuses behind the handshake, as the end of the connection (S51)."""
    foreign = Authority.make(tmp_path_factory.mktemp("other")).issue("client") if is_foreign else None
    security = trusting(authority) if foreign is None else presenting(authority, foreign)
    async with Refusing(broker_identity.context_of_broker(authority.own.certificate)) as listener:
        error = await failure(listener, security)
    assert isinstance(error, AuthenticationError), error
    assert error.reason == "client_certificate"
    assert told in str(error)


async def test_nothing_in_common(authority: Authority, broker_identity: Issued) -> None:
    """A broker of TLS 1.2 and a client of 1.3: no refusal of an identity (S38)."""
    context = broker_identity.context_of_broker()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with Refusing(context) as listener:
        error = await failure(listener, trusting(authority, is_without_1_2=True))
    assert isinstance(error, ProtocolError)
    assert "no TLS version or cipher in common" in str(error)


async def test_an_error_of_sasl_is_not_one_of_tls(authority: Authority, broker_identity: Issued) -> None:
    """Its `reason` is no code of OpenSSL."""

    def refused(*_: object) -> Dialogue[Any]:
        yield from Now()
        raise AuthenticationError("no", reason="credentials")

    async with listening(broker_identity.context_of_broker()) as listener:
        security = SecurityProtocol(trusting(authority).tls_context, refused)
        error = await failure(listener, security)
        assert isinstance(error, AuthenticationError)
        assert error.reason == "credentials"


async def test_a_plaintext_listener(authority: Authority) -> None:
    """It hangs up, or answers with bytes that are not TLS."""

    async def hang_up(wire: Wire) -> None:
        await wire.reader.read(1)

    async def talk(wire: Wire) -> None:
        wire.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await wire.until_closed()

    for script in (hang_up, talk):
        peer = await Peer.start(script)
        with pytest.raises(ProtocolError, match="may be a plaintext listener"):
            await dial(at("localhost", peer.port), CONFIG, trusting(authority))
        await peer.stop()

"""Every kind of broker certificate against a TLS server: accepted, or refused before a byte of SASL is sent (S24)."""

from __future__ import annotations

import asyncio
import socket
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import pytest

from aioproducer._net.connecting.dialing import dial
from aioproducer._net.connecting.security import SecurityProtocol
from aioproducer._net.tls.context import make_context
from aioproducer._state.connecting.authentication import authentication
from aioproducer._state.connecting.dialogue import Dialogue
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer._state.connecting.opening import BrokerVersions
from aioproducer._state.connecting.sessions import AuthenticatedSession
from aioproducer.errors import AuthenticationError, ProtocolError
from aioproducer.security.sasl.mechanisms import MECHANISMS
from aioproducer.security.tls.settings import PemText, TlsSettings
from tests.certificate_cases import CASES
from tests.connection.peer import Wire, at, serving
from tests.connection.test_authenticating import CANARY, CONFIG, PASSWORD, Broker
from tests.connection.test_tls import Refusing
from tests.reports import report

LIMIT = 30.0


@pytest.fixture(autouse=True)
def resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name is an address of this machine."""

    async def look_up(_host: str, port: int) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr("aioproducer._net.connecting.dialing.look_up", look_up)


def plain_over_tls(trusted: str) -> SecurityProtocol:
    """SASL PLAIN over TLS."""
    context = make_context(TlsSettings(PemText("ssl_truststore_certificates", trusted)))

    async def tls_context() -> ssl.SSLContext:
        return context

    def authenticate(_: BrokerEndpoint, versions: BrokerVersions) -> Dialogue[AuthenticatedSession]:
        return authentication("PLAIN", MECHANISMS["PLAIN"].exchange(PASSWORD), versions)

    return SecurityProtocol(tls_context, authenticate)


@attrs.define
class Counted:
    """A TLS listener that counts what clients send inside of TLS."""

    port: int = 0
    received: int = 0
    broker: Broker = attrs.field(factory=lambda: Broker("PLAIN"))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Play the broker."""
        counted = asyncio.StreamReader()
        wire = asyncio.ensure_future(self._play(Wire(counted, writer)))
        try:
            with suppress(ConnectionError, ssl.SSLError):
                while data := await reader.read(65536):
                    self.received += len(data)
                    counted.feed_data(data)
        finally:
            counted.feed_eof()
            await wire

    async def _play(self, wire: Wire) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await self.broker(wire)


@asynccontextmanager
async def counting(context: ssl.SSLContext) -> AsyncIterator[Counted]:
    """A listener with this context."""
    listener = Counted()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)  # the broker's end complains of alerts
    async with serving(listener.serve, context) as listener.port:
        yield listener


def context_of(store: str, folder: Path) -> ssl.SSLContext:
    """The context of a broker with this key and these certificates."""
    path = folder / "broker.pem"
    path.write_text(store)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("kind", CASES)
async def test_e17_a_certificate(kind: str, version: ssl.TLSVersion, tmp_path: Path) -> None:
    """The fault is named, and the broker gets no byte; a good one is authenticated to."""
    case = CASES[kind].make()
    context = context_of(case.store, tmp_path)
    context.maximum_version = context.minimum_version = version
    async with asyncio.timeout(LIMIT), counting(context) as listener:
        dialed = dial(at(case.host, listener.port, 3), CONFIG, plain_over_tls(case.trusted))
        if not case.refusal:
            (await dialed).close()
            assert listener.broker.seen == ["ApiVersions", "SaslHandshake", "SaslAuthenticate"]
            return
        with pytest.raises(AuthenticationError) as caught:
            await dialed
        assert caught.value.reason == "certificate"
        assert case.refusal in str(caught.value)
        assert CANARY not in report(caught.value)
        assert listener.received == 0


async def test_a_broker_of_tls_1_1_only(tmp_path: Path) -> None:
    """It has no version in common with a client: not a fault of an identity (S01, S38)."""
    case = CASES["good"].make()
    context = context_of(case.store, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    async with Refusing(context) as listener:
        with pytest.raises(ProtocolError, match="no TLS version or cipher in common"):
            await dial(at(case.host, listener.port, 3), CONFIG, plain_over_tls(case.trusted))

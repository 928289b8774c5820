"""Every kind of broker certificate at a listener of a real Kafka: accepted, or refused before the authentication begins."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aioproducer._net.connecting.dialing import dial
from aioproducer._net.connecting.security import SecurityProtocol
from aioproducer._net.tls.context import make_context
from aioproducer._state.connecting.authentication import authentication
from aioproducer._state.connecting.dialogue import Dialogue
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer._state.connecting.opening import BrokerVersions
from aioproducer._state.connecting.sessions import AuthenticatedSession
from aioproducer.config import ProducerConfig
from aioproducer.errors import AuthenticationError
from aioproducer.secret import Secret
from aioproducer.security.sasl.credentials import PasswordCredentials
from aioproducer.security.sasl.mechanisms import MECHANISMS
from aioproducer.security.tls.settings import PemText, TlsSettings
from tests.certificate_cases import CASES
from tests.kafka.secured import PLAIN_PASSWORD, USER, SecuredKafka

pytestmark = pytest.mark.kafka
CONFIG = ProducerConfig("localhost:9092", client_id="orders")
CHANGE_LIMIT = 20.0
NETWORK_THREADS = 2


@pytest.fixture(autouse=True)
def resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name is an address of this machine."""

    async def look_up(_host: str, port: int) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr("aioproducer._net.connecting.dialing.look_up", look_up)


@pytest.fixture(scope="module")
def kafka(secured_kafka: SecuredKafka) -> Iterator[SecuredKafka]:
    yield secured_kafka
    secured_kafka.use_store(secured_kafka.broker_store)
    until_sent(secured_kafka.sasl_port, secured_kafka.broker_store.read_text())


def until_sent(port: int, store: str) -> None:
    """Wait until new connections get the first certificate of this store, from each network thread in turn."""
    expected = store[store.index("-----BEGIN CERTIFICATE-----") :]
    end = time.monotonic() + CHANGE_LIMIT
    in_turn = 0
    while in_turn < 2 * NETWORK_THREADS:
        is_new = expected.startswith(ssl.get_server_certificate(("127.0.0.1", port)).strip())
        in_turn = in_turn + 1 if is_new else 0
        assert time.monotonic() < end, "the broker did not take the certificate"


@pytest.mark.parametrize("kind", CASES)
async def test_e17_a_certificate(kafka: SecuredKafka, kind: str, tmp_path: Path) -> None:
    """The fault is named, and neither ApiVersions nor SASL is sent; a good one is authenticated to (S24)."""
    case = CASES[kind].make()
    store = tmp_path / "broker.pem"
    store.write_text(case.store)
    await asyncio.to_thread(kafka.use_store, store)
    await asyncio.to_thread(until_sent, kafka.sasl_port, case.store)
    context = make_context(TlsSettings(PemText("ssl_truststore_certificates", case.trusted)))
    begun: list[BrokerEndpoint] = []

    async def tls_context() -> ssl.SSLContext:
        return context

    def authenticate(endpoint: BrokerEndpoint, versions: BrokerVersions) -> Dialogue[AuthenticatedSession]:
        begun.append(endpoint)
        given = PasswordCredentials(USER, Secret(PLAIN_PASSWORD))
        return authentication("PLAIN", MECHANISMS["PLAIN"].exchange(given), versions)

    dialed = dial(
        BrokerEndpoint.advertised(case.host, kafka.sasl_port, 1),
        CONFIG,
        SecurityProtocol(tls_context, authenticate),
    )
    if not case.refusal:
        connection = await dialed
        assert connection.gate.session is not None
        connection.close()
        return
    with pytest.raises(AuthenticationError) as caught:
        await dialed
    assert caught.value.reason == "certificate"
    assert case.refusal in str(caught.value)
    assert begun == []

"""TLS, SASL and re-authentication against a real Kafka, with the library's own dialogue, mechanisms and contexts."""

from __future__ import annotations

import asyncio
import ssl
from functools import partial

import pytest

from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._net.connecting.connection.connection import Connection
from aioproducer._net.connecting.conversing import converse_in_use
from aioproducer._net.connecting.dialing import dial
from aioproducer._net.connecting.security import PLAINTEXT, SecurityProtocol
from aioproducer._net.tls.context import make_context
from aioproducer._state.connecting.authentication import authentication
from aioproducer._state.connecting.dialogue import Dialogue
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer._state.connecting.opening import BrokerVersions
from aioproducer._state.connecting.sessions import AuthenticatedSession
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataResponse
from aioproducer.config import ProducerConfig
from aioproducer.errors import AuthenticationError, BrokerUnavailableError, KafkaError, ProtocolError
from aioproducer.secret import Secret
from aioproducer.security.sasl.credentials import PasswordCredentials, TokenCredentials
from aioproducer.security.sasl.mechanisms import MECHANISMS
from aioproducer.security.tls.settings import PemIdentity, StoreFile, TlsSettings
from aioproducer.testing import unsecured_token
from tests.certificates import Authority, Issued
from tests.kafka.secured import PLAIN_PASSWORD, SCRAM_PASSWORD, SESSION_SECONDS, USER, SecuredKafka

CONFIG = ProducerConfig("localhost:9092", client_id="orders")
pytestmark = pytest.mark.kafka
ALL = pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "GSSAPI"])


@pytest.fixture
def kafka(secured_kafka: SecuredKafka) -> SecuredKafka:
    return secured_kafka


def credentials(mechanism: str) -> PasswordCredentials | TokenCredentials:
    """Credentials that the broker accepts."""
    if mechanism == "OAUTHBEARER":
        return TokenCredentials(Secret(unsecured_token(USER)))
    return PasswordCredentials(USER, Secret(PLAIN_PASSWORD if mechanism == "PLAIN" else SCRAM_PASSWORD))


def tls(authority: Authority, identity: Issued | None = None) -> SecurityProtocol:
    """TLS alone, with or without a client certificate."""
    own = (
        None
        if identity is None
        else PemIdentity("key", Secret(identity.key.read_text()), identity.certificate.read_text())
    )
    context = make_context(TlsSettings(StoreFile("trust", str(authority.own.certificate)), own))

    async def tls_context() -> ssl.SSLContext:
        return context

    return SecurityProtocol(tls_context)


def sasl(kafka: SecuredKafka, mechanism: str, given: object = None) -> SecurityProtocol:
    """SASL over TLS."""

    def authenticate(_: BrokerEndpoint, versions: BrokerVersions) -> Dialogue[AuthenticatedSession]:
        exchange = MECHANISMS[mechanism].exchange(given or credentials(mechanism))
        return authentication(mechanism, exchange, versions)

    return SecurityProtocol(tls(kafka.authority).tls_context, authenticate)


async def asked(connection: Connection) -> MetadataResponse:
    """The answer to a request over this connection."""
    return await answer_to(connection, MetadataRequest(), MetadataResponse, timeout=30)


@ALL
async def test_a_mechanism_over_tls(kafka: SecuredKafka, mechanism: str) -> None:
    """The connection is authenticated, its session has the broker's lifetime, and it accepts requests."""
    connection = await dial(
        BrokerEndpoint.bootstrap("localhost", kafka.sasl_port), CONFIG, sasl(kafka, mechanism)
    )
    assert connection.gate.session is not None
    assert connection.gate.session.lifetime == pytest.approx(SESSION_SECONDS, abs=0.01)
    assert [node.port for node in (await asked(connection)).brokers] == [kafka.sasl_port]
    connection.close()


@ALL
async def test_authenticating_again(kafka: SecuredKafka, mechanism: str) -> None:
    """Re-authentication runs behind requests in flight, on a connection that outlives its first session (KIP-368)."""
    loop = asyncio.get_running_loop()
    endpoint = BrokerEndpoint.bootstrap("localhost", kafka.sasl_port)
    security = sasl(kafka, mechanism)
    connection = await dial(endpoint, CONFIG, security)
    assert security.authenticate is not None
    assert connection.gate.session is not None
    first = session = connection.gate.session
    while loop.time() < first.ends_at + 1.0:
        # Brokers refuse a second authentication of a connection within a second.
        while loop.time() < session.began_at + 2.0:
            await asked(connection)
        before = [asyncio.ensure_future(asked(connection)) for _ in range(3)]
        await asyncio.sleep(0)  # the requests are written
        dialogue = security.authenticate(endpoint, connection.versions)
        again = asyncio.ensure_future(converse_in_use(connection, dialogue, timeout=30))
        await asyncio.sleep(0)  # the first request of the re-authentication is written
        behind = [asyncio.ensure_future(asked(connection)) for _ in range(3)]
        session = connection.gate.session = await again
        await asyncio.gather(*before, *behind)
    assert session.lifetime == pytest.approx(SESSION_SECONDS, abs=0.01)
    connection.close()


async def failure(endpoint: BrokerEndpoint, security: SecurityProtocol) -> KafkaError:
    """The error of a failed dial."""
    with pytest.raises(KafkaError) as raised:
        await dial(endpoint, CONFIG, security)
    assert "canary" not in str(raised.value)
    return raised.value


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", [USER, "nobody"])
async def test_refused_credentials(kafka: SecuredKafka, mechanism: str, user: str) -> None:
    """A wrong password and an unknown user give the same error."""
    given = PasswordCredentials(user, Secret("wrong-canary"))
    endpoint = BrokerEndpoint.bootstrap("localhost", kafka.sasl_port)
    error = await failure(endpoint, sasl(kafka, mechanism, given))
    assert isinstance(error, AuthenticationError)
    assert (error.reason, error.mechanism, error.code) == ("credentials", mechanism, 58)


async def test_a_token_that_has_expired(kafka: SecuredKafka) -> None:
    """The broker reports it in the exchange, then with an error code."""
    endpoint = BrokerEndpoint.bootstrap("localhost", kafka.sasl_port)
    given = TokenCredentials(Secret(unsecured_token(USER, -60.0)))
    error = await failure(endpoint, sasl(kafka, "OAUTHBEARER", given))
    assert isinstance(error, AuthenticationError)
    assert (error.reason, error.code) == ("credentials", 58)


async def test_certificates_of_clients(kafka: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A certificate of the authority is accepted; none, or one of another authority, is refused (S51)."""
    endpoint = BrokerEndpoint.bootstrap("localhost", kafka.ssl_port)
    connection = await dial(endpoint, CONFIG, tls(kafka.authority, kafka.authority.issue("client")))
    assert [node.port for node in (await asked(connection)).brokers] == [kafka.ssl_port]
    connection.close()
    foreign = Authority.make(tmp_path_factory.mktemp("foreign")).issue("client")
    for security in (tls(kafka.authority), tls(kafka.authority, foreign)):
        error = await failure(endpoint, security)
        assert isinstance(error, AuthenticationError), error
        assert error.reason == "client_certificate"


async def test_other_listeners(kafka: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> None:
    """TLS to a plaintext listener, plaintext to a TLS one, SASL to one without it, and a foreign authority."""
    plaintext = BrokerEndpoint.bootstrap("127.0.0.1", kafka.nodes[0].ports.broker)
    with_sasl = BrokerEndpoint.bootstrap("localhost", kafka.sasl_port)
    dials = partial(failure, plaintext)
    assert "may be a plaintext listener" in str(await dials(tls(kafka.authority)))
    without_tls = SecurityProtocol(authenticate=sasl(kafka, "PLAIN").authenticate)
    error = await dials(without_tls)
    assert isinstance(error, ProtocolError)
    assert "does not support SASL" in str(error)
    assert "a security_protocol with TLS" in str(await failure(with_sasl, PLAINTEXT))
    without_sasl = await dial(with_sasl, CONFIG, tls(kafka.authority))
    with pytest.raises(BrokerUnavailableError, match="its listener may require SASL"):
        await asked(without_sasl)
    other = Authority.make(tmp_path_factory.mktemp("foreign"))
    error = await failure(with_sasl, tls(other))
    assert isinstance(error, AuthenticationError)
    assert error.reason == "certificate"

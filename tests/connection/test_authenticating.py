"""Authentication over the wire: at the opening, again behind requests in flight, and without a trace of secrets."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Any

import pytest

from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._net.connecting.conversing import converse_in_use
from aioproducer._net.connecting.dialing import dial
from aioproducer._net.connecting.security import SecurityProtocol
from aioproducer._net.securing.protocol import security_of
from aioproducer._state.connecting.authentication import authentication
from aioproducer._state.connecting.dialogue import Dialogue
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer._state.connecting.opening import BrokerVersions
from aioproducer._state.connecting.sessions import AuthenticatedSession
from aioproducer._wire.codec import decode_request, encode_response
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataResponse
from aioproducer._wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aioproducer._wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aioproducer.auth import Token
from aioproducer.config import ProducerConfig
from aioproducer.errors import AuthenticationError, BrokerUnavailableError, KafkaError
from aioproducer.secret import Secret
from aioproducer.security.sasl.credentials import PasswordCredentials, TokenCredentials
from aioproducer.security.sasl.mechanisms import MECHANISMS
from tests.connection.peer import Wire, at, framed, versions_answer
from tests.connection.test_pairing import Listen
from tests.reports import report
from tests.security.sasl.scram_server import ScramServer

CONFIG = ProducerConfig("localhost:9092", client_id="orders")
CANARY = "canary-7"
KEYS = [(0, 0, 13), (3, 0, 13), (17, 0, 1), (18, 0, 4), (36, 0, 2)]
PASSWORD = PasswordCredentials("user", Secret(CANARY))
ALL = pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "GSSAPI"])


def credentials_for(mechanism: str) -> object:
    """Credentials of the type that the mechanism takes."""
    return TokenCredentials(Secret(CANARY)) if mechanism == "OAUTHBEARER" else PASSWORD


def protocol(mechanism: str) -> SecurityProtocol:
    """SASL over plaintext."""

    def authenticate(_: BrokerEndpoint, versions: BrokerVersions) -> Dialogue[AuthenticatedSession]:
        row = MECHANISMS[mechanism]
        return authentication(mechanism, row.exchange(credentials_for(mechanism)), versions)

    return SecurityProtocol(authenticate=authenticate)


class Broker:
    """Takes one mechanism, in the order that real brokers insist on; `seen` are the requests in their order."""

    def __init__(self, mechanism: str, *, refuses: str = "", silent_after: int = 1000) -> None:
        self.mechanism = mechanism
        self.refuses = refuses
        self.silent_after = silent_after
        self.seen: list[str] = []
        self._server: ScramServer | None = None

    async def __call__(self, wire: Wire) -> None:
        while len(self.seen) < self.silent_after:
            header, request = decode_request(await wire.read())
            name = type(request).__name__.removesuffix("Request")
            self.seen.append(name)
            answer = self._answer(request)
            wire.write(framed(encode_response(answer, header.api_version, header.correlation_id)))
        await wire.until_closed()

    def _answer(self, request: Any) -> Any:
        if isinstance(request, SaslHandshakeRequest):
            self._server = ScramServer(
                "sha512" if self.mechanism.endswith("512") else "sha256", "user", CANARY
            )
            code = 0 if request.mechanism == self.mechanism else 33
            return SaslHandshakeResponse(code, [self.mechanism])
        if isinstance(request, SaslAuthenticateRequest):
            if self.refuses == "credentials":
                return SaslAuthenticateResponse(58, "Authentication failed")
            if self.refuses == "in Kafka's words":
                return SaslAuthenticateResponse(58, "Authentication failed: Invalid username or password")
            if self.refuses == "all, and repeats it" and not request.auth_bytes.startswith(b"n,,n="):
                return SaslAuthenticateResponse(58, f"bad message: {request.auth_bytes.decode()}")
            return SaslAuthenticateResponse(0, None, self._challenge(request.auth_bytes), 60_000)
        return MetadataResponse() if isinstance(request, MetadataRequest) else versions_answer(KEYS)

    def _challenge(self, message: bytes) -> bytes:
        if not self.mechanism.startswith("SCRAM"):
            assert CANARY.encode() in message
            return b""
        assert self._server is not None
        assert CANARY.encode() not in message
        return self._server.first(message) if message.startswith(b"n,,") else self._server.final(message)


@ALL
async def test_a_connection_is_authenticated_before_it_is_used(listen: Listen, mechanism: str) -> None:
    """ApiVersions, SaslHandshake, SaslAuthenticate until done, then requests; the session is known (S42)."""
    broker = Broker(mechanism)
    connection = await dial(at("127.0.0.1", (await listen(broker)).port), CONFIG, protocol(mechanism))
    messages = 2 if mechanism.startswith("SCRAM") else 1
    assert broker.seen == ["ApiVersions", "SaslHandshake", *["SaslAuthenticate"] * messages]
    assert connection.gate.session is not None
    assert (connection.gate.session.mechanism, connection.gate.session.lifetime) == (mechanism, 60.0)
    assert connection.gate.session.began_at <= asyncio.get_running_loop().time()
    connection.close()


@ALL
async def test_authenticating_again_behind_requests(listen: Listen, mechanism: str) -> None:
    """Requests before and behind it are answered on the same connection, and none comes in between (KIP-368)."""
    broker = Broker(mechanism)
    security = protocol(mechanism)
    endpoint = at("127.0.0.1", (await listen(broker)).port)
    connection = await dial(endpoint, CONFIG, security)
    opened = len(broker.seen)
    assert security.authenticate is not None
    ask = partial(answer_to, connection, MetadataRequest(), MetadataResponse, timeout=30, version=5)
    before = [asyncio.ensure_future(ask()) for _ in range(3)]
    await asyncio.sleep(0)  # they are written
    again = asyncio.ensure_future(
        converse_in_use(connection, security.authenticate(endpoint, connection.versions), timeout=30)
    )
    await asyncio.sleep(0)  # the first question is written
    behind = [asyncio.ensure_future(ask()) for _ in range(3)]
    session = await again
    await asyncio.gather(*before, *behind)
    sasl = ["SaslHandshake", *(["SaslAuthenticate"] * (opened - 2))]
    assert broker.seen[opened:] == [*["Metadata"] * 3, *sasl, *["Metadata"] * 3]
    assert connection.gate.session is not None
    assert session.began_at >= connection.gate.session.began_at
    connection.close()


async def failure(
    broker: Broker, listen: Listen, mechanism: str, config: ProducerConfig = CONFIG
) -> KafkaError:
    """The error that dialing raises."""
    with pytest.raises(KafkaError) as raised:
        await dial(at("127.0.0.1", (await listen(broker)).port), config, protocol(mechanism))
    return raised.value


@ALL
async def test_refused_credentials_show_no_secret(listen: Listen, mechanism: str) -> None:
    """Dialing raises the AuthenticationError itself; no frame has the password or the token in a variable (S17)."""
    error = await failure(Broker(mechanism, refuses="credentials"), listen, mechanism)
    assert isinstance(error, AuthenticationError)
    assert error.reason == "credentials"
    assert CANARY not in report(error)


async def refusal(listen: Listen, mechanism: str, refuses: str, password: str) -> AuthenticationError:
    """The error of a producer whose settings have this password, or token."""
    settings: dict[str, Any] = {"sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        settings["sasl_token_provider"] = lambda: Token(password)
    else:
        settings |= {"sasl_username": "user", "sasl_password": password}
    config = ProducerConfig(
        "localhost:9092", security_protocol="SASL_PLAINTEXT", allow_plaintext_credentials=True, **settings
    )
    endpoint = at("127.0.0.1", (await listen(Broker(mechanism, refuses=refuses))).port)
    security = security_of(config, asyncio.get_running_loop(), random.Random(1))
    with pytest.raises(AuthenticationError) as raised:
        await dial(endpoint, config, security)
    return raised.value


@ALL
async def test_a_message_that_a_broker_repeats_is_hidden(listen: Listen, mechanism: str) -> None:
    """That of SCRAM ends with a proof, from which the password can be guessed."""
    error = await refusal(listen, mechanism, "all, and repeats it", CANARY)
    assert "bad message: " in str(error)
    assert "***" in str(error)
    assert ",p=" not in str(error)
    assert CANARY not in report(error)


async def test_a_password_that_is_a_word_of_kafka(listen: Listen) -> None:
    """Stars in place of it would tell it."""
    error = await refusal(listen, "PLAIN", "in Kafka's words", "password")
    assert "Authentication failed: Invalid username or password" in str(error)


@ALL
async def test_silence_in_the_middle_names_the_request(listen: Listen, mechanism: str) -> None:
    """A broker that takes the credentials and says nothing is not a refusal (S38)."""
    config = ProducerConfig("localhost:9092", client_id="orders", request_timeout_ms=1000)
    error = await failure(Broker(mechanism, silent_after=2), listen, mechanism, config)
    assert isinstance(error, BrokerUnavailableError)
    assert "connected, but no answer to SaslAuthenticate (within 1 s)" in str(error)
    assert CANARY not in report(error)


async def test_another_mechanism_is_not_tried(listen: Listen) -> None:
    """A broker that wants another one learns nothing secret (S07)."""
    broker = Broker("PLAIN")
    error = await failure(broker, listen, "SCRAM-SHA-256")
    assert isinstance(error, AuthenticationError)
    assert (error.reason, error.code) == ("mechanism", 33)
    assert "it offers PLAIN" in str(error)
    assert broker.seen == ["ApiVersions", "SaslHandshake"]

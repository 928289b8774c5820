"""Authentication by SASL, driven by hand: requests, answers, and what each failure means."""

from __future__ import annotations

import random
from typing import Any

import pytest

from aioproducer._state.connecting.authentication import SaslExchange, authentication
from aioproducer._state.connecting.dialogue import Ask, Await, Dialogue, Now, Step
from aioproducer._state.connecting.opening import BrokerVersions, negotiated
from aioproducer._state.connecting.sessions import AuthenticatedSession
from aioproducer._wire.codec import encode_response
from aioproducer._wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aioproducer._wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aioproducer.errors import AuthenticationError, BrokerUnavailableError, KafkaError, ProtocolError
from tests.connection.peer import versions_answer
from tests.simulation.lies import SASL, Lie, lies_of
from tests.state.connecting.driver import play

BROKER = "kafka1:9092 (id 3)"
VERSIONS = negotiated(BROKER, versions_answer([(0, 0, 13), (17, 0, 1), (36, 0, 2)]))
READ_TOKEN = Await("the token provider", lambda: NotImplemented)


def shaken(code: int = 0, mechanisms: tuple[str, ...] = ("TEST",)) -> bytes:
    """The answer to SaslHandshake."""
    return encode_response(SaslHandshakeResponse(code, mechanisms), 1, 0)


def answered(challenge: bytes = b"", code: int = 0, text: str | None = None, lifetime: int = 0) -> bytes:
    """The answer to SaslAuthenticate."""
    return encode_response(SaslAuthenticateResponse(code, text, challenge, lifetime), 2, 0)


def two_messages() -> SaslExchange:
    """A mechanism that gets a token first, and proves itself in two messages."""
    token = yield from READ_TOKEN
    challenge = yield f"first {token}".encode()
    final = yield b"second " + challenge
    assert final == b"final"


def authenticated(
    *results: object, versions: BrokerVersions = VERSIONS
) -> tuple[list[Step[Any]], AuthenticatedSession]:
    """Play it."""
    return play(authentication("TEST", two_messages(), versions), *results)


def test_a_mechanism_is_carried_by_two_kinds_of_requests() -> None:
    """The token comes before the first question; the session counts from the last request (KIP-152, KIP-368)."""
    steps, session = authenticated(
        "t", shaken(), 5.0, answered(b"salt", lifetime=1), 6.0, answered(b"final", lifetime=60_000)
    )
    assert steps == [
        READ_TOKEN,
        Ask(SaslHandshakeRequest("TEST"), 1),
        Now(),
        Ask(SaslAuthenticateRequest(b"first t"), 2),
        Now(),
        Ask(SaslAuthenticateRequest(b"second salt"), 2),
    ]
    assert session == AuthenticatedSession("TEST", began_at=6.0, lifetime=60.0)


def test_older_brokers() -> None:
    """SaslAuthenticate is asked in the newest common version; version 0 knows no lifetime."""
    versions = negotiated(BROKER, versions_answer([(0, 0, 8), (17, 0, 1), (36, 0, 0)]))
    old = [encode_response(SaslAuthenticateResponse(0, None, body), 0, 0) for body in (b"salt", b"final")]
    steps, session = authenticated("t", shaken(), 5.0, old[0], 6.0, old[1], versions=versions)
    assert steps[-1] == Ask(SaslAuthenticateRequest(b"second salt"), 0)
    assert session == AuthenticatedSession("TEST", began_at=6.0)


@pytest.mark.parametrize("keys", [[(0, 0, 8)], [(0, 0, 8), (17, 0, 0)], [(0, 0, 8), (17, 0, 1)]])
def test_a_broker_before_kafka_1_0_is_refused(keys: list[tuple[int, int, int]]) -> None:
    """Without SaslHandshake 1 and SaslAuthenticate nothing secret is sent."""
    versions = negotiated(BROKER, versions_answer(keys))
    with pytest.raises(ProtocolError, match="Sasl"):
        authenticated("t", shaken(), 5.0, versions=versions)


def failure(*results: object) -> KafkaError:
    """The error that ends it."""
    with pytest.raises(KafkaError) as raised:
        authenticated(*results)
    return raised.value


def test_a_mechanism_that_the_broker_does_not_have() -> None:
    """The error lists what it has, escaped; no other mechanism is tried (S07)."""
    error = failure("t", shaken(33, ("PLAIN", "EVIL\n")))
    assert isinstance(error, AuthenticationError)
    assert (error.reason, error.mechanism, error.code, error.broker) == ("mechanism", "TEST", 33, BROKER)
    assert r"it offers PLAIN, EVIL\x0a" in str(error) or r"it offers PLAIN, EVIL\n" in str(error)


def test_refused_credentials() -> None:
    """The error has the words of the broker."""
    error = failure("t", shaken(), 5.0, answered(code=58, text="Authentication failed: wrong password"))
    assert isinstance(error, AuthenticationError)
    assert (error.reason, error.mechanism, error.code, error.broker) == ("credentials", "TEST", 58, BROKER)
    assert "Authentication failed: wrong password" in str(error)


@pytest.mark.parametrize(
    ("results", "kind", "told"),
    [
        (("t", shaken(34)), ProtocolError, "does not support SASL"),
        (("t", shaken(-1)), BrokerUnavailableError, "SaslHandshake was refused"),
        (("t", shaken(), 5.0, answered(code=34)), BrokerUnavailableError, "ILLEGAL_SASL_STATE"),
        (
            ("t", shaken(), 5.0, answered(code=58, text="Cannot change principals during re-authentication")),
            BrokerUnavailableError,
            "new connection for another user: Cannot change principals",
        ),
        (("t", b"\0\0\0\0"), ProtocolError, ""),
        (("t", shaken(), 5.0, b"\0\0\0\0"), ProtocolError, ""),
        (("t", BrokerUnavailableError("cut")), BrokerUnavailableError, "cut"),
    ],
)
def test_what_is_no_refusal_of_credentials(
    results: tuple[object, ...], kind: type[KafkaError], told: str
) -> None:
    """Faults of networks and protocols are never an AuthenticationError (S38, KIP-152)."""
    error = failure(*results)
    assert type(error) is kind
    assert told in str(error)


def test_a_failing_provider_is_seen_by_the_mechanism() -> None:
    """It says what the failure means, before the broker is asked anything."""

    def careful() -> SaslExchange:
        try:
            yield from READ_TOKEN
        except OSError as caught:
            raise AuthenticationError("no token", reason="token") from caught

    with pytest.raises(AuthenticationError, match="no token"):
        play(authentication("TEST", careful(), VERSIONS), OSError("down"))


def test_a_mechanism_that_ends_too_early() -> None:
    """The broker has proved nothing."""

    def nothing() -> SaslExchange:
        yield from ()

    with pytest.raises(AuthenticationError, match="ended before"):
        play(authentication("TEST", nothing(), VERSIONS), shaken())


def test_an_endless_exchange_is_ended() -> None:
    """After 10 messages; the exchange is closed (S43)."""
    closed: list[bool] = []

    def endless() -> SaslExchange:
        try:
            while True:
                yield b"more"
        finally:
            closed.append(True)

    answers = [result for _ in range(10) for result in (5.0, answered(b"more"))]
    with pytest.raises(AuthenticationError, match="continues after 10 messages"):
        play(authentication("TEST", endless(), VERSIONS), shaken(), *answers)
    assert closed == [True]


def test_an_authentication_that_is_given_up_closes_its_exchange() -> None:
    """Resources that the exchange holds, such as the context of a ticket, are released."""
    closed: list[bool] = []

    def held() -> SaslExchange:
        try:
            yield b"first"
        finally:
            closed.append(True)

    dialogue: Dialogue[AuthenticatedSession] = authentication("TEST", held(), VERSIONS)
    next(dialogue)
    dialogue.close()
    assert closed == [True]


@pytest.mark.parametrize(
    "lie", [lie for api, version in SASL.items() for lie in lies_of(api, version)], ids=lambda lie: lie.name
)
def test_an_answer_that_lies(lie: Lie) -> None:
    """An error of the library ends the dialogue, or the mechanism has proved what it proves without the lie."""

    def told(answer: Any, version: int) -> bytes:
        return encode_response(lie.altered(answer, random.Random(1)), version, 0)

    def said(challenge: bytes) -> bytes:
        return told(SaslAuthenticateResponse(0, None, challenge, 1000), 2)

    handshake = told(SaslHandshakeResponse(0, ("TEST", "OTHER")), 1)
    results = ("t", handshake, 5.0, said(b"salt"), 6.0, said(b"final"))
    if lie.field.name == "error_code":
        assert isinstance(failure(*results), (AuthenticationError, BrokerUnavailableError))
    else:
        _, session = authenticated(*results)
        assert (session.mechanism, session.began_at) == ("TEST", 6.0)

"""Authentication on a listener for SASL over TLS: the order of requests, refusals, sessions, and re-authentication."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from aioproducer._state.connecting.authentication import SaslExchange
from aioproducer._state.connecting.dialogue import Compute
from aioproducer._wire.messages.api_versions import ApiVersionsRequest
from aioproducer._wire.messages.metadata import MetadataRequest
from aioproducer._wire.messages.sasl_authenticate import SaslAuthenticateRequest
from aioproducer._wire.messages.sasl_handshake import SaslHandshakeRequest
from aioproducer.secret import Secret
from aioproducer.security.sasl.credentials import PasswordCredentials
from aioproducer.security.sasl.mechanisms import MECHANISMS
from aioproducer.testing import EmbeddedKafka, certificates, unsecured_token
from tests.contract.client import LIMIT, WireClient

if TYPE_CHECKING:
    from tests.kafka.secured import SecuredKafka

USER, OTHER_USER, PASSWORD = "alice", "bob", "alice,=canary-7"
SESSION = 5.0
MECHANISMS_OF_BOTH = ["OAUTHBEARER", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
UNSUPPORTED_MECHANISM, ILLEGAL_STATE, FAILED = 33, 34, 58


@attrs.frozen
class Listener:
    """The listener under test, and a plaintext one."""

    address: str
    tls: ssl.SSLContext | None
    plaintext: str
    scram_password: str

    def client(self) -> Peer:
        """A connection to it."""
        return Peer(self.address, self.tls)


class Peer(WireClient):
    """A connection with the requests of authentication."""

    async def versions(self) -> Any:
        return await self.ask(ApiVersionsRequest(), 2)

    async def choose(self, mechanism: str = "PLAIN") -> Any:
        return await self.ask(SaslHandshakeRequest(mechanism), 1)

    async def prove(self, message: bytes | None = None) -> Any:
        return await self.ask(SaslAuthenticateRequest(plain() if message is None else message), 2)

    async def metadata(self) -> Any:
        return await self.ask(MetadataRequest([]), 8)

    async def authenticate(self) -> Any:
        """All of it, with PLAIN."""
        await self.versions()
        await self.choose()
        return await self.prove()

    async def is_closed(self) -> bool:
        """Whether the broker closes the connection and sends nothing more."""
        return await self.rest() == b""


def plain(user: str = USER, password: str = PASSWORD) -> bytes:
    """The message of PLAIN."""
    return f"\0{user}\0{password}".encode()


def bearer(token: str) -> bytes:
    """The message of OAUTHBEARER."""
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kafka)])
async def listener(request: pytest.FixtureRequest) -> AsyncIterator[Listener]:
    """SASL over TLS with all mechanisms of passwords and tokens; sessions end after five seconds."""
    if request.param == "real":
        from tests.kafka.secured import SCRAM_PASSWORD  # it needs a client of Kafka

        kafka: SecuredKafka = request.getfixturevalue("secured_kafka")
        tls = ssl.create_default_context(cafile=str(kafka.authority.own.certificate))
        yield Listener(f"localhost:{kafka.sasl_port}", tls, kafka.bootstrap_servers, SCRAM_PASSWORD)
        return
    authority = certificates()
    tls = ssl.create_default_context(cadata=authority.authority)
    users = {USER: PASSWORD, OTHER_USER: PASSWORD}
    async with (
        EmbeddedKafka(tls=authority.broker_context(), users=users, session_lifetime=SESSION) as secured,
        EmbeddedKafka() as open_to_all,
    ):
        yield Listener(secured.bootstrap_servers, tls, open_to_all.bootstrap_servers, PASSWORD)


@pytest.fixture
async def peer(listener: Listener) -> AsyncIterator[Peer]:
    """A new connection."""
    async with listener.client() as connected:
        yield connected


# -- the order of requests


@pytest.mark.parametrize(
    "requests",
    [
        "metadata",
        "prove",
        "versions versions",
        "versions metadata",
        "versions prove",
    ],
)
async def test_a_request_out_of_order_closes_the_connection(peer: Peer, requests: str) -> None:
    """The last of these requests gets no answer."""
    *before, last = requests.split()
    for name in before:
        assert (await getattr(peer, name)()).error_code == 0
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await getattr(peer, last)()


@pytest.mark.parametrize("last", ["choose", "versions", "metadata"])
async def test_another_request_within_an_exchange_is_an_illegal_state(peer: Peer, last: str) -> None:
    """It is answered with the error, for which an answer about no topics has no place, and the connection is closed."""
    await peer.versions()
    await peer.choose()
    answer = await getattr(peer, last)()
    assert last == "metadata" or answer.error_code == ILLEGAL_STATE
    assert await peer.is_closed()


async def test_a_handshake_may_be_the_first_request(peer: Peer) -> None:
    """ApiVersions may be left out."""
    assert (await peer.choose()).error_code == 0
    assert (await peer.prove()).error_code == 0
    assert (await peer.metadata()).brokers


async def test_a_listener_without_sasl(listener: Listener) -> None:
    """It refuses both requests, and the connection continues."""
    async with Peer(listener.plaintext) as peer:
        assert (await peer.choose()).error_code == ILLEGAL_STATE
        assert (await peer.prove()).error_code == ILLEGAL_STATE
        assert (await peer.metadata()).brokers


async def test_an_unknown_mechanism_is_refused_with_those_that_exist(peer: Peer) -> None:
    """The answer lists the mechanisms of the listener, and the connection is closed."""
    await peer.versions()
    answer = await peer.choose("SCRAM-SHA-1")
    assert answer.error_code == UNSUPPORTED_MECHANISM
    assert sorted(answer.mechanisms) == MECHANISMS_OF_BOTH
    assert await peer.is_closed()


# -- messages that are refused


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"alice",
        b"\0alice",
        b"\0\0secret",
        b"bob\0" + plain()[1:],
        b"\0\xff\0\xff",
        plain(password="wrong"),
        plain("no-such-user"),
    ],
    ids=repr,
)
async def test_messages_of_plain_that_are_refused(peer: Peer, message: bytes) -> None:
    """Each gets a refusal with a text, and the connection is closed."""
    await peer.versions()
    await peer.choose()
    answer = await peer.prove(message)
    assert answer.error_code == FAILED
    assert answer.error_message
    assert "canary" not in answer.error_message
    assert await peer.is_closed()


@pytest.mark.parametrize(
    "token",
    [
        unsecured_token("alice", 60, now=time.time() - 900.0),
        unsecured_token("alice") + "signature",
        "not-a-token",
        "eyJhbGciOiJub25lIn0.e30.",
    ],
    ids=["expired", "signed", "no JWT", "no claims"],
)
async def test_tokens_that_are_refused(peer: Peer, token: str) -> None:
    """The client acknowledges the refusal (RFC 7628), and the connection is closed behind it."""
    await peer.versions()
    await peer.choose("OAUTHBEARER")
    challenge = await peer.prove(bearer(token))
    assert (challenge.error_code, challenge.auth_bytes) == (0, b'{"status":"invalid_token"}')
    assert (await peer.prove(b"\x01")).error_code == FAILED
    assert await peer.is_closed()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=alice",
        b"n,,r=nonce",
        b"y,,n=alice,r=nonce",
        b"p=tls-unique,,n=alice,r=nonce",
        b"n,,n=\xff,r=a",
    ],
    ids=repr,
)
async def test_first_messages_of_scram_that_are_refused(peer: Peer, message: bytes) -> None:
    """A message that is none of SCRAM without channel binding is refused, and the connection is closed."""
    await peer.versions()
    await peer.choose("SCRAM-SHA-256")
    assert (await peer.prove(message)).error_code == FAILED
    assert await peer.is_closed()


def scram_answer(exchange: SaslExchange, challenge: bytes) -> bytes:
    """The last message of the client."""
    step = exchange.send(challenge)
    while not isinstance(step, bytes):
        assert isinstance(step, Compute)
        step = exchange.send(step.function())
    return step


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("change", ["nothing", "password", "user", "nonce", "proof", "channel binding"])
async def test_last_messages_of_scram(listener: Listener, peer: Peer, mechanism: str, change: str) -> None:
    """A wrong proof, and a message that does not continue the first, are refused; the connection is closed."""
    user = "no-such-user" if change == "user" else USER
    password = Secret("wrong" if change == "password" else listener.scram_password)
    exchange = MECHANISMS[mechanism].exchange(PasswordCredentials(user, password))
    first = next(exchange)
    assert isinstance(first, bytes)
    await peer.versions()
    await peer.choose(mechanism)
    challenge = await peer.prove(first)
    if change == "user":
        assert challenge.error_code == FAILED
        assert await peer.is_closed()
        return
    assert challenge.error_code == 0
    last = scram_answer(exchange, challenge.auth_bytes)
    start, _, proof = last.rpartition(b",p=")
    changed = {
        "nonce": last.replace(b"r=", b"r=x"),
        "proof": start + b",p=" + base64.b64encode(bytes(len(base64.b64decode(proof)))),
        "channel binding": last.replace(b"c=biws", b"c=eSws"),
    }
    answer = await peer.prove(changed.get(change, last))
    if change == "nothing":
        assert answer.error_code == 0
        assert (await peer.metadata()).brokers
    else:
        assert answer.error_code == FAILED
        assert await peer.is_closed()


async def test_a_proof_of_another_length_ends_the_connection(listener: Listener, peer: Peer) -> None:
    """It gets no answer."""
    exchange = MECHANISMS["SCRAM-SHA-256"].exchange(
        PasswordCredentials(USER, Secret(listener.scram_password))
    )
    first = next(exchange)
    assert isinstance(first, bytes)
    await peer.versions()
    await peer.choose("SCRAM-SHA-256")
    last = scram_answer(exchange, (await peer.prove(first)).auth_bytes)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await peer.prove(last.rpartition(b",p=")[0] + b",p=" + base64.b64encode(b"short"))


# -- sessions


async def test_the_lifetime_of_a_session_is_announced(peer: Peer) -> None:
    """In milliseconds; requests are answered in the session."""
    answer = await peer.authenticate()
    assert (answer.error_code, answer.session_lifetime_ms) == (0, pytest.approx(SESSION * 1000, abs=10))
    assert (await peer.metadata()).brokers


async def test_the_session_of_a_token_ends_with_it(peer: Peer) -> None:
    """A token that expires before the session would end is the end of the session."""
    await peer.versions()
    await peer.choose("OAUTHBEARER")
    answer = await peer.prove(bearer(unsecured_token(USER, 3)))
    assert 1_000 <= answer.session_lifetime_ms <= 3_000


async def test_a_second_renewal_within_a_second_is_refused(peer: Peer) -> None:
    """The first one may come at any time. The handshake of the second is refused, and the session continues."""
    await peer.authenticate()
    assert (await peer.choose()).error_code == 0
    assert (await peer.prove()).session_lifetime_ms == pytest.approx(SESSION * 1000, abs=10)
    assert (await peer.choose()).error_code == ILLEGAL_STATE
    assert (await peer.metadata()).brokers


@pytest.mark.parametrize("change", ["user", "password"])
async def test_a_renewal_that_is_refused(peer: Peer, change: str) -> None:
    """Another user and a wrong password are refused, and the connection is closed."""
    await peer.authenticate()
    await peer.choose()
    answer = await peer.prove(plain(OTHER_USER) if change == "user" else plain(password="wrong"))
    assert answer.error_code == FAILED
    assert await peer.is_closed()


async def test_a_renewal_with_another_mechanism_ends_the_connection(peer: Peer) -> None:
    """The handshake is accepted, and the message of the mechanism gets no answer."""
    await peer.authenticate()
    assert (await peer.choose("OAUTHBEARER")).error_code == 0
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await peer.prove(bearer(unsecured_token(USER)))


async def test_a_request_behind_the_end_of_a_session_closes_the_connection(peer: Peer) -> None:
    """Requests are answered until the session ends, and not behind its end."""
    await peer.authenticate()
    began = time.monotonic()
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while time.monotonic() < began + LIMIT:
            await peer.metadata()
    assert SESSION - 0.1 < time.monotonic() - began < LIMIT

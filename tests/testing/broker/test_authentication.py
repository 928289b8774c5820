"""The embedded Kafka authenticates its clients, over TLS or without it, as a secured Kafka does."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer as ConfluentProducer

from aioproducer import Producer
from aioproducer._wire.codec import decode_response, encode_request
from aioproducer._wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataResponse
from aioproducer._wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aioproducer._wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aioproducer.errors import AuthenticationError
from aioproducer.testing import Certificates, EmbeddedKafka, certificates, unsecured_token
from aioproducer.testing.broker.conversation import Conversation
from aioproducer.testing.broker.effects import Close, Write
from tests.net.support import until

USERS = {"alice": "alice-secret", "=,": "odd, = name"}
LIMIT = 20.0
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def _credentials(mechanism: str, user: str = "alice", password: str | None = None) -> dict[str, Any]:
    settings: dict[str, Any] = {"sasl_mechanism": mechanism, "allow_plaintext_credentials": True}
    if mechanism == "OAUTHBEARER":

        async def provide() -> str:
            return unsecured_token(user)

        return {**settings, "sasl_token_provider": provide}
    return {**settings, "sasl_username": user, "sasl_password": password or USERS.get(user, "none")}


@pytest.fixture(scope="module", name="authority")
def _authority() -> Certificates:
    return certificates()


@pytest.mark.parametrize("with_tls", [False, True], ids=["plaintext", "TLS"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_each_mechanism(mechanism: str, authority: Certificates, *, with_tls: bool) -> None:
    """A user with the password, or with a token, writes."""
    tls = authority.broker_context() if with_tls else None
    protocol: dict[str, Any] = {"security_protocol": "SASL_SSL" if with_tls else "SASL_PLAINTEXT"}
    if with_tls:
        protocol["ssl_truststore_certificates"] = authority.authority
    async with EmbeddedKafka(2, tls=tls, users=USERS) as kafka:
        settings = {**protocol, **_credentials(mechanism)}
        async with Producer(kafka.bootstrap_servers, **settings) as producer:
            await producer.send_and_wait("orders", b"1")
        assert [record.value for record in kafka.records("orders")] == [b"1"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "alice-secret")])
async def test_wrong_credentials(mechanism: str, user: str, password: str) -> None:
    """They are refused, and nothing is written."""
    async with EmbeddedKafka(users=USERS) as kafka:
        settings = {"security_protocol": "SASL_PLAINTEXT", **_credentials(mechanism, user, password)}
        async with Producer(kafka.bootstrap_servers, **settings) as producer:
            with pytest.raises(AuthenticationError) as refused:
                await producer.send("orders", b"1", max_block=LIMIT)
        assert refused.value.reason == "credentials"
        assert refused.value.code == 58
        assert kafka.topics == {}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
async def test_a_name_that_has_to_be_quoted(mechanism: str) -> None:
    """Commas and equals signs are quoted in messages of SCRAM."""
    async with EmbeddedKafka(users=USERS) as kafka:
        settings = {"security_protocol": "SASL_PLAINTEXT", **_credentials(mechanism, "=,")}
        async with Producer(kafka.bootstrap_servers, **settings) as producer:
            await producer.send_and_wait("orders", b"1")


async def test_a_mechanism_that_the_cluster_does_not_have() -> None:
    """The refusal says which mechanisms there are."""
    async with EmbeddedKafka(users=USERS, mechanisms=("SCRAM-SHA-512",)) as kafka:
        settings = {"security_protocol": "SASL_PLAINTEXT", **_credentials("PLAIN")}
        async with Producer(kafka.bootstrap_servers, **settings) as producer:
            with pytest.raises(AuthenticationError, match="SCRAM-SHA-512") as refused:
                await producer.ready(LIMIT)
        assert refused.value.reason == "mechanism"


async def test_a_password_that_changes() -> None:
    """A changed password counts for new connections; a connection that is authenticated goes on."""
    passwords = {"alice": "first"}
    async with EmbeddedKafka(users=passwords) as kafka:
        credentials = {**_credentials("SCRAM-SHA-256"), "sasl_password": lambda: passwords["alice"]}
        async with Producer(
            kafka.bootstrap_servers, security_protocol="SASL_PLAINTEXT", **credentials
        ) as producer:
            await producer.send_and_wait("orders", b"1")
            kafka.users["alice"] = passwords["alice"] = "second"
            await producer.send_and_wait("orders", b"2")
            kafka.faults.drop_connections(1)
            await producer.send_and_wait("orders", b"3")
        assert [record.value for record in kafka.records("orders")] == [b"1", b"2", b"3"]


async def test_a_user_that_is_deleted_and_comes_back() -> None:
    """Accepted records wait for the user; none is lost or written twice."""
    async with EmbeddedKafka(users=USERS) as kafka:
        settings = {"security_protocol": "SASL_PLAINTEXT", **_credentials("SCRAM-SHA-256")}
        async with Producer(kafka.bootstrap_servers, **settings) as producer:
            await producer.send_and_wait("orders", b"1")
            password = kafka.users.pop("alice")
            kafka.faults.drop_connections(1)
            delivery = await producer.send("orders", b"2")
            kafka.forget_requests()
            await until(lambda: any(one.api == "SaslAuthenticate" for one in kafka.requests))
            kafka.users["alice"] = password
            await asyncio.wait_for(delivery, LIMIT)
        assert [record.value for record in kafka.records("orders")] == [b"1", b"2"]


async def test_sessions_that_are_too_short_to_be_renewed() -> None:
    """Brokers refuse a renewal within a second: connections are replaced behind their answers, and nothing is lost."""
    async with EmbeddedKafka(users=USERS, session_lifetime=0.4) as kafka:
        settings = {"security_protocol": "SASL_PLAINTEXT", **_credentials("PLAIN"), "reconnect_backoff_ms": 5}
        async with Producer(kafka.bootstrap_servers, linger_ms=0, **settings) as producer:
            values: list[bytes] = []
            while sum(one.connects for one in producer.stats().connections if one.broker == "1") < 4:
                values.append(b"%d" % len(values))
                await producer.send_and_wait("orders", values[-1])
            stats = producer.stats()
        assert [record.value for record in kafka.records("orders")] == values
        assert sum(one.reauthentications + one.authentication_failures for one in stats.connections) == 0
        assert (stats.records_failed, stats.records_unknown) == (0, 0)


async def test_sessions_end_and_are_renewed() -> None:
    """A producer authenticates again before the end of its session, and no connection is lost by it."""
    async with EmbeddedKafka(users=USERS, session_lifetime=1.5) as kafka:
        settings = {"security_protocol": "SASL_PLAINTEXT", **_credentials("PLAIN")}
        async with Producer(kafka.bootstrap_servers, linger_ms=0, **settings) as producer:
            written = 0
            begun = len(kafka.requests)
            while sum(one.api == "SaslHandshake" for one in kafka.requests) < 5:
                await producer.send_and_wait("orders", b"%d" % written)
                written += 1
                assert written < 100_000, kafka.requests[begun:][:20]
        assert [record.value for record in kafka.records("orders")] == [b"%d" % n for n in range(written)]


def test_foreign_clients(authority: Certificates, tmp_path: Path) -> None:
    """confluent-kafka and aiokafka are let in as well, by SCRAM over TLS and by PLAIN."""
    trusted = tmp_path / "authority.pem"
    trusted.write_text(authority.authority)

    def confluent(servers: str) -> int:
        errors: list[Any] = []
        producer = ConfluentProducer(
            {
                "bootstrap.servers": servers,
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(trusted),
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "alice",
                "sasl.password": USERS["alice"],
            }
        )
        producer.produce("orders", b"confluent", on_delivery=lambda error, _: errors.append(error))
        left = producer.flush(LIMIT)
        assert errors == [None]
        return left

    async def both() -> None:
        async with EmbeddedKafka(tls=authority.broker_context(), users=USERS) as kafka:
            assert await asyncio.to_thread(confluent, kafka.bootstrap_servers) == 0
            context = ssl.create_default_context(cadata=authority.authority)
            async with AIOKafkaProducer(
                bootstrap_servers=kafka.bootstrap_servers,
                security_protocol="SASL_SSL",
                ssl_context=context,
                sasl_mechanism="PLAIN",
                sasl_plain_username="alice",
                sasl_plain_password=USERS["alice"],
            ) as producer:
                await producer.send_and_wait("orders", b"aiokafka")
            assert {record.value for record in kafka.records("orders")} == {b"confluent", b"aiokafka"}

    asyncio.run(both())


async def test_mutual_tls(authority: Certificates) -> None:
    """Without a certificate of the authority a client is refused, by an alert that says why."""
    client = authority.issue("alice")
    async with EmbeddedKafka(tls=authority.broker_context(mutual=True)) as kafka:
        settings: dict[str, Any] = {
            "security_protocol": "SSL",
            "ssl_truststore_certificates": authority.authority,
        }
        own: dict[str, Any] = {
            "ssl_keystore_key": client.key,
            "ssl_keystore_certificate_chain": client.certificate,
        }
        async with Producer(kafka.bootstrap_servers, **settings, **own) as producer:
            await producer.send_and_wait("orders", b"1")
        async with Producer(kafka.bootstrap_servers, client_id="stranger", **settings) as stranger:
            with pytest.raises(AuthenticationError, match="CERTIFICATE_REQUIRED") as refused:
                await stranger.ready(LIMIT)
            assert refused.value.reason == "client_certificate"
        assert {one.client_id for one in kafka.requests} == {"aioproducer"}
        assert len(kafka.records("orders")) == 1


@pytest.mark.parametrize("fault", ["expired", "another host", "another authority"])
async def test_a_certificate_that_is_refused(fault: str, authority: Certificates) -> None:
    """The client refuses the broker before it sends anything of its credentials."""
    used = {
        "expired": lambda: authority.issue(lifetime=timedelta(days=-1)),
        "another host": lambda: authority.issue(hosts=["kafka.example"]),
        "another authority": lambda: certificates().issue(),
    }[fault]()
    async with EmbeddedKafka(tls=authority.broker_context(used), users=USERS) as kafka:
        settings = {
            "security_protocol": "SASL_SSL",
            "ssl_truststore_certificates": authority.authority,
            **_credentials("PLAIN"),
        }
        async with Producer(kafka.bootstrap_servers, **settings) as producer:
            with pytest.raises(AuthenticationError) as refused:
                await producer.ready(LIMIT)
        assert refused.value.reason == "certificate"
        assert kafka.requests == ()


# -- the order of requests, without a client


class Peer:
    """A connection to the broker without a socket, by a clock that stands."""

    def __init__(self, **settings: Any) -> None:
        self.now = 1000.0
        self.kafka = EmbeddedKafka(
            clock=lambda: self.now, wall_clock=lambda: int(self.now * 1000), **{"users": USERS, **settings}
        )
        self.talk = Conversation(self.kafka._sockets._brokers[1])
        self.number = 0

    def ask(self, request: Any, version: int, answer: type[Any]) -> Any:
        """The answer; None: the connection was closed without one."""
        self.number += 1
        frame = encode_request(request, version, self.number, "peer")
        effects = self.talk.receive(len(frame).to_bytes(4, "big") + frame)
        self.closed = any(isinstance(effect, Close) for effect in effects)
        written = [effect.data for effect in effects if isinstance(effect, Write)]
        if not written:
            return None
        return decode_response(answer, version, written[0][4:])[1]

    def versions(self) -> Any:
        """ApiVersions."""
        return self.ask(ApiVersionsRequest(), 2, ApiVersionsResponse)

    def choose(self, mechanism: str = "PLAIN") -> Any:
        """SaslHandshake."""
        return self.ask(SaslHandshakeRequest(mechanism), 1, SaslHandshakeResponse)

    def prove(self, message: bytes = b"\0alice\0alice-secret") -> Any:
        """SaslAuthenticate."""
        return self.ask(SaslAuthenticateRequest(message), 2, SaslAuthenticateResponse)

    def authenticate(self) -> Any:
        """All of it."""
        self.versions()
        self.choose()
        return self.prove()

    def metadata(self) -> Any:
        """Any other request."""
        return self.ask(MetadataRequest([]), 8, MetadataResponse)


def test_the_lifetime_of_a_session_and_its_end() -> None:
    """It is announced; behind its end only a new authentication is taken."""
    peer = Peer(session_lifetime=10)
    assert peer.authenticate().session_lifetime_ms == 10_000
    peer.now += 9.9
    assert peer.metadata() is not None
    peer.now += 0.1
    assert peer.choose().error_code == 0
    assert peer.prove().session_lifetime_ms == 10_000
    peer.now += 10
    assert peer.metadata() is None
    assert peer.closed


def test_renewals_keep_a_distance() -> None:
    """A second renewal within a second is refused, and the session goes on; after a second it is accepted."""
    peer = Peer(session_lifetime=10)
    peer.authenticate()
    assert peer.choose().error_code == 0
    peer.prove()
    peer.now += 0.9
    assert peer.choose().error_code == 34
    assert peer.metadata() is not None
    peer.now += 0.1
    assert peer.choose().error_code == 0


def test_a_session_without_an_end_is_not_renewed() -> None:
    """The handshake is refused, and the session goes on."""
    peer = Peer()
    peer.authenticate()
    peer.now += 100
    assert peer.choose().error_code == 34
    assert peer.metadata() is not None


def test_the_session_of_a_token_ends_with_it() -> None:
    """Also where sessions have no end of their own."""
    peer = Peer()
    peer.versions()
    peer.choose("OAUTHBEARER")
    token = unsecured_token("alice", 60, now=peer.now)
    assert peer.prove(f"n,,\x01auth=Bearer {token}\x01\x01".encode()).session_lifetime_ms == 60_000


@pytest.mark.parametrize(
    "settings",
    [
        {"mechanisms": "PLAIN"},
        {"mechanisms": ["GSSAPI"]},
        {"session_lifetime": 0},
        {"users": None, "session_lifetime": 5},
    ],
    ids=str,
)
def test_settings_that_cannot_be(settings: dict[str, Any]) -> None:
    """They are refused at once."""
    with pytest.raises(ValueError, match=next(iter(settings)) if len(settings) == 1 else "session_lifetime"):
        EmbeddedKafka(**{"users": USERS, **settings})


def _scram(**more: Any) -> dict[str, Any]:
    quick = {"reconnect_backoff_ms": 5, "reconnect_backoff_max_ms": 20}
    return {"security_protocol": "SASL_PLAINTEXT", **_credentials("SCRAM-SHA-256"), **quick, **more}


@pytest.mark.parametrize(
    ("step", "change", "reason"),
    [
        (1, lambda token: token.replace(b"r=", b"r=x"), "nonce"),
        (1, lambda token: token.replace(b"i=4096", b"i=1"), "iterations"),
        (1, lambda token: token.replace(b"i=4096", b"i=2147483647"), "iterations"),
        (1, lambda token: b",".join((token.split(b",")[0], b"s=", token.split(b",")[2])), "salt is empty"),
        (1, lambda _: b"", "first message"),
        (2, lambda _: b"", "no signature"),
        (2, lambda _: b"v=AAAA", "signature is wrong"),
        (2, lambda _: b"e=other-error", "other-error"),
    ],
)
async def test_b15_a_step_of_a_mechanism_is_changed(
    step: int, change: Callable[[bytes], bytes], reason: str
) -> None:
    """The client refuses a broker that cheats in this step, and is accepted when the broker is honest again."""
    async with EmbeddedKafka(users=USERS) as kafka:
        fault = kafka.faults.sasl(step, change, times=None)
        async with Producer(kafka.bootstrap_servers, **_scram()) as producer:
            with pytest.raises(AuthenticationError, match=reason) as caught:
                await producer.ready(LIMIT)
            assert caught.value.reason == "server"
            fault.heal()
            await producer.send_and_wait("orders", b"1")
        assert 1 <= fault.hits <= 3, "a storm of attempts"


@pytest.mark.parametrize("step", [1, 2])
async def test_a_step_is_refused_or_its_connection_ends(step: int) -> None:
    """Every rule takes a step: only this request of an exchange is meant."""
    async with EmbeddedKafka(users=USERS) as kafka:
        cut = kafka.faults.cut(api="SaslAuthenticate", step=step)
        async with Producer(kafka.bootstrap_servers, **_scram()) as producer:
            await producer.send_and_wait("orders", b"1")
        assert cut.hits == 1
        before = len(kafka.requests)
        refusal = kafka.faults.sasl(step, times=None)
        async with Producer(kafka.bootstrap_servers, **_scram()) as producer:
            with pytest.raises(AuthenticationError) as caught:
                await producer.ready(LIMIT)
            assert (caught.value.reason, caught.value.code) == ("credentials", 58)
            asked = [request.api for request in kafka.requests[before:]].count("SaslAuthenticate")
            assert asked == step * refusal.hits
            refusal.heal()
            producer.set_credentials(password=USERS["alice"])
            await producer.send_and_wait("orders", b"2")

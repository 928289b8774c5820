"""`set_credentials()` and `reload_certificates()` while records are sent: nothing is lost, doubled or made UNKNOWN."""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

from aioproducer import ConfigurationError, Outcome, Producer, StateError
from aioproducer._net.securing import calling
from aioproducer._state.connecting.dialogue import Compute
from aioproducer.security.sasl import scram
from aioproducer.security.sasl.credentials import PasswordCredentials
from aioproducer.security.sasl.known_keys import Derivation, DerivedKey
from aioproducer.testing import Certificates, EmbeddedKafka, certificates, unsecured_token
from tests.net.support import LIMIT, until

PLAIN: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "allow_plaintext_credentials": True,
    "sasl_mechanism": "PLAIN",
    "sasl_username": "alice",
    "sasl_password": "first",
    "linger_ms": 0,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 20,
}
TOKENS: dict[str, Any] = {**PLAIN, "sasl_mechanism": "OAUTHBEARER"}
del TOKENS["sasl_username"], TOKENS["sasl_password"]


async def send_until(producer: Producer[Any, Any], ready: Any) -> list[Any]:
    """Send to every partition until the condition holds."""
    deliveries = []
    async with asyncio.timeout(LIMIT):
        while not ready():
            deliveries += [
                await producer.send("t", b"%d" % number, partition=number % 4) for number in range(40)
            ]
            await asyncio.sleep(0)
    return deliveries


async def require_all_written_once(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], deliveries: list[Any]
) -> None:
    """Each record is acknowledged, and each is in the log once."""
    (await producer.flush()).raise_for_errors()
    assert {delivery.outcome for delivery in deliveries} == {Outcome.ACKED}
    assert len(kafka.records("t")) == len(deliveries)
    offsets = [(delivery.result().partition, delivery.result().offset) for delivery in deliveries]
    assert len(set(offsets)) == len(offsets)


def connects(producer: Producer[Any, Any]) -> dict[str, int]:
    """The number of connections so far, by the broker."""
    return {one.broker: one.connects for one in producer.stats().connections}


def are_replaced(producer: Producer[Any, Any], before: dict[str, int]) -> bool:
    """Whether each connection to a broker has a successor."""
    return all(count > before[broker] for broker, count in connects(producer).items() if broker != "metadata")


@pytest.mark.parametrize("in_flight", [1, 5])
async def test_a_password_changes_while_records_are_sent(in_flight: int) -> None:
    """Each connection is replaced behind its answers, and authenticates with the new password."""
    async with EmbeddedKafka(3, users={"alice": "first"}) as kafka:
        kafka.create_topic("t", 4)
        settings = {**PLAIN, "max_in_flight_requests_per_connection": in_flight}
        async with Producer(kafka.bootstrap_servers, **settings) as producer:
            deliveries = await send_until(producer, lambda: producer.stats().records_acked > 100)
            before = connects(producer)
            kafka.users["alice"] = "second"
            producer.set_credentials(password="second")
            deliveries += await send_until(producer, lambda: are_replaced(producer, before))
            await require_all_written_once(kafka, producer, deliveries)
            assert producer.stats().records_retried == 0
            stats = producer.stats().connections
            assert all(one.authentications == one.connects for one in stats)
            assert sum(one.authentication_failures for one in stats) == 0
            assert producer.config.sasl_username == "alice"


async def test_refused_credentials_leave_the_other_connections(caplog: pytest.LogCaptureFixture) -> None:
    """One connection is lost by a wrong password; the right one is tried at once, and the records are written."""
    async with EmbeddedKafka(3, users={"alice": "first"}) as kafka:
        kafka.create_topic("t", 4)
        async with Producer(kafka.bootstrap_servers, **PLAIN) as producer:
            deliveries = await send_until(producer, lambda: producer.stats().records_acked > 100)
            with caplog.at_level(logging.WARNING, "aioproducer"):
                producer.set_credentials(username="alice", password="wrong")
                deliveries += await send_until(
                    producer, lambda: "open connections stay as they are" in caplog.text
                )
            assert producer.health().connected_brokers >= 2
            producer.set_credentials(password="first")
            async with asyncio.timeout(1.0):  # the pause behind a refusal would take longer
                await until(lambda: producer.stats().records_buffered == 0)
            await require_all_written_once(kafka, producer, deliveries)


async def test_a_refused_token_is_not_presented_again() -> None:
    """Its end may be far away, as with a token that was revoked or a clock that is behind: the provider is asked all the same."""
    calls = 0

    async def provide() -> tuple[str, float]:
        nonlocal calls
        calls += 1
        return unsecured_token("alice", 3600.0), time.time() + 3600

    async with EmbeddedKafka(1, mechanisms=("OAUTHBEARER",)) as kafka:
        kafka.create_topic("t", 4)
        async with Producer(kafka.bootstrap_servers, sasl_token_provider=provide, **TOKENS) as producer:
            deliveries = await send_until(producer, lambda: producer.stats().records_acked > 100)
            assert calls == 1
            kafka.faults.sasl(1, times=1)
            kafka.faults.drop_connections(1)
            deliveries += await send_until(producer, lambda: calls == 2)
            async with asyncio.timeout(LIMIT):
                await until(lambda: producer.stats().records_buffered == 0)
            await require_all_written_once(kafka, producer, deliveries)
            assert sum(one.authentication_failures for one in producer.stats().connections) == 1


async def test_two_changes_at_once() -> None:
    """The second one counts, also for the connections that the first one has replaced."""
    async with EmbeddedKafka(3, users={"alice": "third"}) as kafka:
        kafka.create_topic("t", 4)
        async with Producer(kafka.bootstrap_servers, **{**PLAIN, "sasl_password": "third"}) as producer:
            deliveries = await send_until(producer, lambda: producer.stats().records_acked > 100)
            before = connects(producer)
            producer.set_credentials(password="wrong")
            producer.set_credentials(password="third")
            deliveries += await send_until(producer, lambda: are_replaced(producer, before))
            await require_all_written_once(kafka, producer, deliveries)
            assert sum(one.authentication_failures for one in producer.stats().connections) == 0


async def test_a_transaction_goes_on_over_a_change() -> None:
    """The coordinator's connection is replaced as well."""
    async with EmbeddedKafka(2, users={"alice": "first"}) as kafka:
        kafka.create_topic("t", 4)
        async with Producer(kafka.bootstrap_servers, transactional_id="clerk", **PLAIN) as producer:
            async with producer.transaction():
                await producer.send_and_wait("t", b"a", partition=0)
                kafka.users["alice"] = "second"
                producer.set_credentials(password="second")
                await producer.send_and_wait("t", b"b", partition=1)
            async with producer.transaction():
                await producer.send("t", b"c", partition=2)
        assert {record.value for record in kafka.records("t")} == {b"a", b"b", b"c"}


async def test_connections_share_the_key_of_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second connection derives nothing."""
    derived: list[Derivation] = []
    derive = scram._derived

    def counted(credentials: PasswordCredentials, derivation: Derivation) -> Compute[DerivedKey]:
        derived.append(derivation)
        return derive(credentials, derivation)

    monkeypatch.setattr(scram, "_derived", counted)
    async with EmbeddedKafka(1, users={"alice": "first"}, mechanisms=("SCRAM-SHA-256",)) as kafka:
        kafka.create_topic("t", 4)
        settings = {**PLAIN, "sasl_mechanism": "SCRAM-SHA-256"}
        async with Producer(kafka.bootstrap_servers, **settings) as producer:
            await producer.send_and_wait("t", b"a")
            assert len(producer.stats().connections) == 2
            assert len(derived) == 1


async def test_a_provider_of_tokens_is_replaced() -> None:
    """The token of the former provider is not used any more, although it is valid."""
    asked: list[str] = []

    def provider(name: str) -> Any:
        def provide() -> str:
            asked.append(name)
            return unsecured_token("alice", 3600.0)

        return provide

    async with EmbeddedKafka(1, users={"alice": "x"}, mechanisms=("OAUTHBEARER",)) as kafka:
        kafka.create_topic("t", 4)
        async with Producer(
            kafka.bootstrap_servers, **TOKENS, sasl_token_provider=provider("old")
        ) as producer:
            deliveries = await send_until(producer, lambda: producer.stats().records_acked > 100)
            before = connects(producer)
            producer.set_credentials(token_provider=provider("new"))
            deliveries += await send_until(producer, lambda: are_replaced(producer, before))
            await require_all_written_once(kafka, producer, deliveries)
    assert asked == ["old", "new"]


async def test_before_the_start_and_after_the_end() -> None:
    """A new producer begins with the new password; a closed one refuses."""
    async with EmbeddedKafka(1, users={"alice": "second"}) as kafka:
        kafka.create_topic("t", 4)
        producer = Producer(kafka.bootstrap_servers, **PLAIN)
        producer.set_credentials(password="second")
        async with producer:
            await producer.send_and_wait("t", b"a")
        with pytest.raises(StateError, match="was closed"):
            producer.set_credentials(password="third")


@pytest.mark.parametrize(
    ("settings", "given", "text"),
    [
        ({}, {"password": "canary"}, "security_protocol=PLAINTEXT has no credentials"),
        (PLAIN, {"token_provider": lambda: "canary"}, "PLAIN takes username and password"),
        (PLAIN, {}, "PLAIN takes username and password, or one of them"),
        (PLAIN, {"password": 5}, "sasl_password"),
        (PLAIN, {"password": "canary\udc80"}, "sasl_password: has a lone surrogate"),
        (PLAIN, {"password": ""}, "sasl_password: is empty"),
        (
            {**TOKENS, "sasl_token_provider": lambda: ""},
            {"password": "canary"},
            "OAUTHBEARER takes token_provider",
        ),
    ],
)
def test_what_the_mechanism_does_not_take(settings: dict[str, Any], given: dict[str, Any], text: str) -> None:
    """The error has the reason, nothing changes, and no frame of its traceback has the secret."""
    producer: Producer = Producer("127.0.0.1:1", **settings)
    before = producer.config
    with pytest.raises(ConfigurationError, match=text) as caught:
        producer.set_credentials(**given)
    assert producer.config is before
    frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True).stack
    shown = [frame for frame in frames if "/aioproducer/" in frame.filename and frame.locals]
    assert shown
    assert not any("canary" in value for frame in shown for value in (frame.locals or {}).values())


def test_a_jaas_string_is_replaced() -> None:
    """The half that is not given stays as the string has it."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    settings = {
        **PLAIN,
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_jaas_config": f'{module} required username="a" password="b";',
    }
    del settings["sasl_username"], settings["sasl_password"]
    producer: Producer = Producer("127.0.0.1:1", **settings)
    producer.set_credentials(password="c")
    config = producer.config
    assert config.sasl_username == "a"
    assert config.sasl_jaas_config is None
    assert config.sasl_password is not None


# -- certificates


@pytest.fixture(scope="module")
def authority() -> Certificates:
    """An authority."""
    return certificates()


@pytest.fixture(scope="module")
def demanding(authority: Certificates) -> ssl.SSLContext:
    """The context of brokers that want certificates of clients."""
    return authority.broker_context(mutual=True)


async def test_certificates_are_reloaded_while_records_are_sent(
    authority: Certificates, demanding: ssl.SSLContext, tmp_path: Path
) -> None:
    """A half-written file is refused and changes nothing; with whole ones each connection is replaced."""
    store, trusted = tmp_path / "client.pem", tmp_path / "ca.pem"
    whole = authority.issue("alice").pem
    store.write_text(whole)
    trusted.write_text(authority.authority)
    async with EmbeddedKafka(2, tls=demanding) as kafka:
        kafka.create_topic("t", 4)
        settings: dict[str, Any] = {
            "security_protocol": "SSL",
            "ssl_truststore_location": str(trusted),
            "ssl_keystore_location": str(store),
            "reconnect_backoff_ms": 5,
            "reconnect_backoff_max_ms": 20,
        }
        async with Producer(kafka.bootstrap_servers, linger_ms=0, **settings) as producer:
            deliveries = await send_until(producer, lambda: producer.stats().records_acked > 100)
            before = connects(producer)
            store.write_text(whole[: len(whole) // 2])
            with pytest.raises(ConfigurationError, match="ssl_keystore_location"):
                await producer.reload_certificates()
            assert connects(producer) == before
            store.write_text(authority.issue("alice").pem)
            await producer.reload_certificates()
            deliveries += await send_until(producer, lambda: are_replaced(producer, before))
            await require_all_written_once(kafka, producer, deliveries)


async def test_without_tls_there_is_nothing_to_reload() -> None:
    """The error names the protocol."""
    producer: Producer = Producer("127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="PLAINTEXT"):
        await producer.reload_certificates()
    await producer.close()


async def test_sessions_are_counted() -> None:
    """`stats()` has the authentications, the renewals and the end of the session of each connection."""
    # With two seconds, a busy machine once renewed behind the end, and the broker had closed the connection.
    lifetime = 4.0
    async with EmbeddedKafka(1, users={"alice": "first"}, session_lifetime=lifetime) as kafka:
        kafka.create_topic("t", 4)
        async with Producer(kafka.bootstrap_servers, **PLAIN) as producer:

            def renewed() -> bool:
                return any(one.reauthentications for one in producer.stats().connections)

            await producer.send_and_wait("t", b"a")
            ends_in = [one.session_ends_in for one in producer.stats().connections]
            assert all(left is not None and 0 < left <= lifetime for left in ends_in)
            async with asyncio.timeout(LIMIT):
                while not renewed():
                    await producer.send_and_wait("t", b"b")
            assert all(one.authentications == 1 for one in producer.stats().connections)


@pytest.mark.parametrize("fault", ["raises", "hangs", "old"])
async def test_e16_a_token_ends_and_its_provider_fails(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The present token is used to its end; the records go on with the next good one, each of them written once."""
    monkeypatch.setattr(calling, "LONGEST_CALL", 0.2)
    ends_soon, never, calls = unsecured_token("alice", 2.0), asyncio.Event(), 0

    async def provide() -> str:
        nonlocal calls
        calls += 1
        if calls > 3:
            return unsecured_token("alice", 3600.0)
        if calls > 1 and fault == "raises":
            raise RuntimeError(fault)
        if calls > 1 and fault == "hangs":
            await never.wait()
        return ends_soon

    async with EmbeddedKafka(1, users={"alice": "x"}, mechanisms=("OAUTHBEARER",)) as kafka:
        kafka.create_topic("t", 4)
        async with Producer(kafka.bootstrap_servers, **TOKENS, sasl_token_provider=provide) as producer:
            deliveries: list[Any] = []
            async with asyncio.timeout(LIMIT):
                while calls <= 3:
                    deliveries.append(await producer.send("t", b"x", partition=len(deliveries) % 4))
                    await deliveries[-1]
                deliveries.append(await producer.send("t", b"last", partition=0))
                await deliveries[-1]
            await require_all_written_once(kafka, producer, deliveries)
    assert calls == 4


async def test_a_system_without_room_for_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """SCRAM derives its key in a thread. A connection that cannot have one is tried again."""
    start, refusals = threading.Thread.start, 0

    def refuse_once(thread: threading.Thread) -> None:
        nonlocal refusals
        if not refusals:
            refusals += 1
            raise RuntimeError("can't start new thread")
        start(thread)

    async with EmbeddedKafka(1, users={"alice": "first"}) as kafka:
        kafka.create_topic("t", 1)
        monkeypatch.setattr(threading.Thread, "start", refuse_once)
        async with Producer(
            kafka.bootstrap_servers, **PLAIN | {"sasl_mechanism": "SCRAM-SHA-256"}
        ) as producer:
            assert (await producer.send_and_wait("t", b"1")).offset == 0
    assert refusals == 1

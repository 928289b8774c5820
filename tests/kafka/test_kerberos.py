"""GSSAPI: the producer, a KDC and a listener of a real Kafka."""

from __future__ import annotations

import asyncio
import random
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from aioproducer import (
    AuthenticationError,
    BrokerUnavailableError,
    KafkaError,
    Producer,
    ProducerConfig,
    ProtocolError,
)
from aioproducer._net.connecting.dialing import dial
from aioproducer._net.securing.protocol import security_of
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer.security.sasl.credentials import KerberosCredentials
from aioproducer.security.sasl.kerberos import GssapiContext, renew_tickets
from tests.connection.test_in_the_middle import Relay, Treat, between
from tests.kafka.reading import read_all
from tests.kafka.realm import REALM, Realm
from tests.kafka.secured import SESSION_SECONDS, SecuredKafka
from tests.kafka.sending import Sender, sending, until

pytestmark = pytest.mark.kafka
CLIENT = f"orders@{REALM}"
TICKET_SECONDS = 4


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka.with_realm(tmp_path_factory.mktemp("secured")) as kafka:
        realm_of(kafka).principal("orders")
        yield kafka


@pytest.fixture(autouse=True)
def _environment(kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(realm_of(kafka).config))


def realm_of(kafka: SecuredKafka) -> Realm:
    assert kafka.realm is not None
    return kafka.realm


def settings(kafka: SecuredKafka, **kerberos: str) -> dict[str, Any]:
    """The settings of a producer for the listener."""
    return {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": str(kafka.authority.own.certificate),
        "sasl_kerberos_service_name": "kafka",
        "linger_ms": 0,
        **kerberos,
    }


def keytab(kafka: SecuredKafka) -> str:
    return str(realm_of(kafka).folder / "orders.keytab")


async def test_records_over_several_sessions(kafka: SecuredKafka) -> None:
    """With a key table: the session ends twice, each record is there once, in order, and the connection is the same."""
    topic = kafka.create_topic("kerberos-sessions")
    given = settings(kafka, sasl_kerberos_principal=CLIENT, sasl_kerberos_keytab=keytab(kafka))
    loop = asyncio.get_running_loop()
    values: list[bytes] = []
    async with Producer(f"localhost:{kafka.kerberos_port}", **given) as producer:
        until = loop.time() + 2 * SESSION_SECONDS
        while loop.time() < until:
            values.append(b"%d" % len(values))
            await producer.send_and_wait(topic, values[-1], partition=0)
        stats = producer.stats()
    assert [record.value for record in read_all(kafka.bootstrap_servers, topic)] == values
    assert (stats.records_failed, stats.records_retried) == (0, 0)
    assert [(each.connects, each.failures) for each in stats.connections if each.broker == "1"] == [(1, 0)]


async def test_a_ticket_cache_and_a_login_module(kafka: SecuredKafka, tmp_path: Path) -> None:
    """The tickets of kinit are used; the JAAS string of Java names cache and service."""
    topic = kafka.create_topic("kerberos-cache")
    cache = str(tmp_path / "cache")
    realm_of(kafka).run("kinit", "-c", cache, "-k", "-t", keytab(kafka), CLIENT)
    module = "com.sun.security.auth.module.Krb5LoginModule required"
    jaas = f'{module} useTicketCache=true ticketCache="{cache}" serviceName="kafka";'
    given = settings(kafka, sasl_jaas_config=jaas)
    del given["sasl_kerberos_service_name"]
    async with Producer(f"localhost:{kafka.kerberos_port}", **given) as producer:
        await producer.send_and_wait(topic, b"a")
    assert [record.value for record in read_all(kafka.bootstrap_servers, topic)] == [b"a"]


async def failure(kafka: SecuredKafka, **kerberos: str) -> AuthenticationError:
    """The error that `ready()` raises."""
    async with Producer(f"localhost:{kafka.kerberos_port}", **settings(kafka, **kerberos)) as producer:
        with pytest.raises(AuthenticationError) as caught:
            await producer.ready(30)
    assert caught.value.mechanism == "GSSAPI"
    return caught.value


@pytest.mark.parametrize(
    ("change", "why", "reason"),
    [
        ({"sasl_kerberos_principal": f"nobody@{REALM}"}, "has no key of the principal", "token"),
        ({"sasl_kerberos_keytab": "/nowhere/orders.keytab"}, "the key table cannot be read", "token"),
        ({"sasl_kerberos_service_name": "other"}, "does not know the service of the broker", "server"),
    ],
)
async def test_settings_that_are_wrong(
    kafka: SecuredKafka, change: dict[str, str], why: str, reason: str
) -> None:
    """The error names the setting."""
    given = {"sasl_kerberos_principal": CLIENT, "sasl_kerberos_keytab": keytab(kafka)} | change
    error = await failure(kafka, **given)
    assert why in str(error)
    assert error.reason == reason


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("old", "change_password -randkey", "the key of this client is not the one of the KDC"),
        ("gone", "delete_principal -force", "does not know the principal of this client"),
        ("locked", "modify_principal -allow_tix", "has locked the principal"),
    ],
)
async def test_principals_that_change(kafka: SecuredKafka, name: str, change: str, why: str) -> None:
    """The KDC refuses a former key, and a principal that it does not have or that is locked."""
    own = str(realm_of(kafka).principal(name))
    realm_of(kafka).administer(f"{change} {name}@{REALM}")
    error = await failure(kafka, sasl_kerberos_principal=f"{name}@{REALM}", sasl_kerberos_keytab=own)
    assert why in str(error)


async def test_ticket_caches_without_a_valid_ticket(kafka: SecuredKafka, tmp_path: Path) -> None:
    """There is no cache, then one whose ticket has expired."""
    realm, cache = realm_of(kafka), str(tmp_path / "cache")
    module = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true ticketCache"
    jaas = f'{module}="{cache}";'
    assert "there is no ticket: run kinit" in str(await failure(kafka, sasl_jaas_config=jaas))
    realm.run("kinit", "-l", "1s", "-c", cache, "-k", "-t", keytab(kafka), CLIENT)
    with pytest.raises(subprocess.CalledProcessError):
        while True:  # until it has expired
            await asyncio.to_thread(realm.run, "klist", "-s", "-c", cache)
    assert "the ticket has expired: run kinit" in str(await failure(kafka, sasl_jaas_config=jaas))


async def test_a_kdc_that_is_down(kafka: SecuredKafka) -> None:
    """The error names the KDC; once it runs, the same producer works."""
    topic = kafka.create_topic("kerberos-down")
    realm = realm_of(kafka)
    realm.principal("late")
    given = settings(
        kafka,
        sasl_kerberos_principal=f"late@{REALM}",
        sasl_kerberos_keytab=str(realm.folder / "late.keytab"),
    )
    realm.stop()
    try:
        async with Producer(f"localhost:{kafka.kerberos_port}", **given) as producer:
            with pytest.raises(AuthenticationError, match="no KDC of the realm answers"):
                await producer.ready(60)
            realm.start()
            await producer.send_and_wait(topic, b"a")
    finally:
        realm.stop()
        realm.start()


def test_renewed_tickets_need_no_kdc(kafka: SecuredKafka) -> None:
    """The KDC is asked for the tickets of the brokers as well, and the former ones stay where they are used."""
    realm = realm_of(kafka)
    own = str(realm.principal("renewed"))
    for principal in (f"renewed@{REALM}", None):
        first = KerberosCredentials("kafka", "localhost", principal, own)
        left: list[float] = []
        GssapiContext.begin(attrs.evolve(first, on_use=left.append)).step(None)
        assert left[0] > 3600.0
        renewed = attrs.evolve(first, renewals=1)
        renew_tickets(renewed, ["kafka@localhost"], 0.0)
        realm.stop()
        try:
            for credentials in (first, renewed, attrs.evolve(first, renewals=2)):
                assert GssapiContext.begin(credentials).step(None).token
            with pytest.raises(AuthenticationError, match="no KDC of the realm answers"):
                renew_tickets(renewed, ["kafka@localhost"], 1e9)
            assert GssapiContext.begin(renewed).step(None).token
        finally:
            realm.start()


async def test_a_kdc_that_does_not_answer(kafka: SecuredKafka) -> None:
    """Sessions are renewed with the tickets that are still valid, also after half of their life."""
    life = 4 * SESSION_SECONDS
    realm = realm_of(kafka)
    own = realm.principal("silent", f'-maxlife "{life:g} seconds"')
    topic = kafka.create_topic("kerberos-silent")
    given = settings(kafka, sasl_kerberos_principal=f"silent@{REALM}", sasl_kerberos_keytab=str(own))
    loop = asyncio.get_running_loop()
    longest, most_threads = 0.0, 0
    async with Producer(f"localhost:{kafka.kerberos_port}", **given) as producer:
        ends_at = loop.time() + life - 2
        await producer.send_and_wait(topic, b"first")
        with realm.silent():
            while loop.time() < ends_at:
                began = loop.time()
                await producer.send_and_wait(topic, b"x")
                longest = max(longest, loop.time() - began)
                names = [thread.name for thread in threading.enumerate()]
                most_threads = max(most_threads, names.count("aioproducer tickets"))
    print(f"longest delivery {longest:.2f} s")
    assert longest < SESSION_SECONDS
    assert most_threads == 1


@pytest.fixture
def steady(kafka: SecuredKafka) -> dict[str, Any]:
    """The settings of a client whose tickets end within a session: each authentication needs the KDC."""
    own = realm_of(kafka).principal("steady", f'-maxlife "{TICKET_SECONDS} seconds"')
    return {
        "bootstrap_servers": f"localhost:{kafka.kerberos_port}",
        **settings(kafka, sasl_kerberos_principal=f"steady@{REALM}", sasl_kerberos_keytab=str(own)),
    }


async def left_without_a_connection(sender: Sender) -> None:
    """The session has ended, and there is no other."""
    await until(lambda: not sender.producer.health().connected_brokers)
    with pytest.raises(AuthenticationError) as caught:
        await sender.producer.send("unknown-topic", b"never")
    assert caught.value.mechanism == "GSSAPI"


async def test_e20_the_kdc_restarts_while_records_are_sent(
    kafka: SecuredKafka, steady: dict[str, Any]
) -> None:
    """A session ends without a KDC: accepted records wait for it, and each is written once, in order."""
    realm = realm_of(kafka)
    async with sending(kafka, "kerberos-restart", **steady) as sender:
        await sender.authenticates_again()
        await asyncio.to_thread(realm.stop)
        try:
            await left_without_a_connection(sender)
        finally:
            await asyncio.to_thread(realm.start)
        await sender.authenticates_again()


async def test_e15_the_kdc_locks_the_principal_while_records_are_sent(
    kafka: SecuredKafka, steady: dict[str, Any]
) -> None:
    """The KDC gets few requests meanwhile, and accepted records wait until the principal is unlocked."""
    realm = realm_of(kafka)
    loop = asyncio.get_running_loop()
    async with sending(kafka, "kerberos-locked", **steady) as sender:
        await sender.authenticates_again()
        await asyncio.to_thread(realm.administer, f"modify_principal -allow_tix steady@{REALM}")
        try:
            await left_without_a_connection(sender)
            began, before = loop.time(), refusals(realm)
            while loop.time() < began + SESSION_SECONDS:
                with pytest.raises(AuthenticationError, match="has locked the principal"):
                    await sender.producer.send("unknown-topic", b"never")
            refused, seconds = refusals(realm) - before, loop.time() - began
        finally:
            await asyncio.to_thread(realm.administer, f"modify_principal +allow_tix steady@{REALM}")
        await sender.authenticates_again()
    print(f"{refused} refusals in {seconds:.1f} s")
    assert 1 <= refused <= seconds + 1


def refusals(realm: Realm) -> int:
    """The requests that the KDC has refused because the principal is locked."""
    return (realm.folder / "kdc.log").read_text().count("LOCKED OUT")


async def test_e21_a_broker_that_closes_at_each_message(kafka: SecuredKafka) -> None:
    """It is no refusal, and the error names the request: SaslHandshake, then each message of GSSAPI."""
    told = []
    async with between(kafka.kerberos_port) as relay:
        given = settings(kafka, sasl_kerberos_principal=CLIENT, sasl_kerberos_keytab=keytab(kafka))
        given.pop("linger_ms")
        config = ProducerConfig(f"localhost:{relay.port}", **given)
        security = security_of(config, asyncio.get_running_loop(), random.Random(1))
        endpoint = BrokerEndpoint.bootstrap("localhost", relay.port)
        (await dial(endpoint, config, security, setup_timeout=30)).close()
        for last in range(1, len(relay.flights) + 1):
            relay.treat = _closing_behind(relay, last)
            with pytest.raises(KafkaError) as caught:
                await dial(endpoint, config, security, setup_timeout=30)
            assert isinstance(caught.value, BrokerUnavailableError | ProtocolError)
            told.append(str(caught.value))
    assert sum("during the authentication, at SaslHandshake" in one for one in told) == 1
    assert sum("during the authentication, at SaslAuthenticate" in one for one in told) == 3


def _closing_behind(relay: Relay, last: int) -> Treat:
    """The answer to this flight of the client is the end of the connection."""

    def treat(_position: int, data: bytes) -> tuple[bytes, bool]:
        return (data, True) if len(relay.flights) < last else (b"", False)

    return treat

"""The producer, by its public settings, on the secured listeners of a real Kafka."""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from aioproducer import AuthenticationError, ConfigurationError, DirectoryProvider, Producer, SecretFile
from aioproducer.testing import unsecured_token
from tests.certificates import openssl
from tests.kafka.delegation import delegation_token
from tests.kafka.reading import read_all
from tests.kafka.secured import PLAIN_PASSWORD, SCRAM_PASSWORD, SESSION_SECONDS, USER, SecuredKafka
from tests.reports import report
from tools.kafka_quotas import limit_producer

pytestmark = pytest.mark.kafka
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
QUOTA = 40_000
"""Bytes a second."""


@pytest.fixture
def kafka(secured_kafka: SecuredKafka) -> SecuredKafka:
    return secured_kafka


def settings(kafka: SecuredKafka, mechanism: str, tmp_path: Path) -> dict[str, Any]:
    """Each mechanism with secrets from another place."""
    tls = {"security_protocol": "SASL_SSL", "ssl_truststore_location": str(kafka.authority.own.certificate)}
    if mechanism == "OAUTHBEARER":

        async def provide() -> str:
            return unsecured_token(USER, 600)

        return tls | {"sasl_mechanism": mechanism, "sasl_token_provider": provide}
    if mechanism == "PLAIN":
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        jaas = f'{module} required username="{USER}" password="{PLAIN_PASSWORD}";'
        return tls | {"sasl_mechanism": mechanism, "sasl_jaas_config": jaas}
    path = tmp_path / "password"
    path.write_text(SCRAM_PASSWORD + "\n")
    password = SecretFile(path) if mechanism.endswith("512") else lambda: SCRAM_PASSWORD
    return tls | {"sasl_mechanism": mechanism, "sasl_username": USER, "sasl_password": password}


async def test_records_over_several_sessions(kafka: SecuredKafka, tmp_path: Path) -> None:
    """The session of each mechanism ends twice: each record is there once, in order, and the connection is the same."""
    await asyncio.gather(*(over_several_sessions(kafka, each, tmp_path) for each in MECHANISMS))


async def over_several_sessions(kafka: SecuredKafka, mechanism: str, tmp_path: Path) -> None:
    """Send one record after the other."""
    topic = await asyncio.to_thread(kafka.create_topic, f"sessions-{mechanism.lower()}")
    loop = asyncio.get_running_loop()
    values: list[bytes] = []
    given = settings(kafka, mechanism, tmp_path)
    async with Producer(f"localhost:{kafka.sasl_port}", linger_ms=0, **given) as producer:
        until = loop.time() + 2 * SESSION_SECONDS
        while loop.time() < until:
            values.append(b"%d" % len(values))
            await producer.send_and_wait(topic, values[-1], partition=0)
        stats = producer.stats()
    found = await asyncio.to_thread(read_all, kafka.bootstrap_servers, topic)
    assert [record.value for record in found] == values
    assert (stats.records_failed, stats.records_retried) == (0, 0)
    assert [(each.connects, each.failures) for each in stats.connections if each.broker == "1"] == [(1, 0)]


@pytest.mark.parametrize("is_jaas", [False, True], ids=["settings", "JAAS"])
async def test_a_delegation_token(kafka: SecuredKafka, *, is_jaas: bool) -> None:
    """Its id and HMAC authenticate over several sessions, by settings or by a JAAS string."""
    topic = kafka.create_topic(f"delegated-{is_jaas}")
    token, hmac = await asyncio.to_thread(delegation_token, kafka)
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    given: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": str(kafka.authority.own.certificate),
        "sasl_mechanism": "SCRAM-SHA-256",
    }
    if is_jaas:
        given["sasl_jaas_config"] = (
            f'{module} required username="{token}" password="{hmac}" tokenauth="true";'
        )
    else:
        given |= {"sasl_username": token, "sasl_password": hmac, "sasl_scram_token_auth": True}
    loop = asyncio.get_running_loop()
    async with Producer(f"localhost:{kafka.sasl_port}", linger_ms=0, **given) as producer:
        await accepted(producer)
        until, sent = loop.time() + 1.5 * SESSION_SECONDS, 0
        while loop.time() < until:
            await producer.send_and_wait(topic, b"%d" % sent, partition=0)
            sent += 1
        stats = producer.stats()
    assert len(read_all(kafka.bootstrap_servers, topic)) == sent
    assert stats.records_retried == 0
    assert sum(one.reauthentications for one in stats.connections) >= 1


async def accepted(producer: Producer[Any, Any]) -> None:
    """Wait until the broker knows a token that it has just made."""
    async with asyncio.timeout(60):
        while True:
            with suppress(AuthenticationError):
                await producer.ready(30)
                return


async def test_a_certificate_of_the_client(kafka: SecuredKafka) -> None:
    """Key and chain from one PEM file, and as texts (mutual TLS)."""
    topic = kafka.create_topic("mutual")
    client = kafka.authority.issue("client")
    store = kafka.authority.folder / "client.store.pem"
    store.write_text(client.pem)
    trusted = kafka.authority.own.certificate.read_text()
    texts: dict[str, Any] = {
        "ssl_keystore_key": client.key.read_text(),
        "ssl_keystore_certificate_chain": client.certificate.read_text(),
    }
    file: dict[str, Any] = {"ssl_keystore_location": str(store)}
    for own in (file, texts):
        async with Producer(
            f"localhost:{kafka.ssl_port}",
            security_protocol="SSL",
            ssl_truststore_certificates=trusted,
            **own,
        ) as producer:
            await producer.send_and_wait(topic, b"a")
    assert [record.value for record in read_all(kafka.bootstrap_servers, topic)] == [b"a", b"a"]


@pytest.mark.parametrize(("kind", "magic"), [("PKCS12", b"\x30"), ("JKS", b"\xfe\xed\xfe\xed")])
async def test_stores_of_keytool(kafka: SecuredKafka, kind: str, magic: bytes, tmp_path: Path) -> None:
    """A client.properties of Java (mutual TLS): the passwords of its stores are references that a provider replaces.

    In a JKS store the key has a password of its own.
    """
    client, exported = kafka.authority.issue("stored"), tmp_path / "client.p12"
    openssl("pkcs12", "-export", "-inkey", client.key, "-in", client.certificate, "-out", exported,
            "-name", "client", "-passout", "pass:canary-7")  # fmt: skip
    passwords = {"password": "canary-7", "key": "canary-7-key" if kind == "JKS" else "canary-7"}
    words = ("-noprompt", "-storetype", kind, "-storepass", passwords["password"])
    await keytool("-importkeystore", "-srckeystore", exported, "-srcstorepass", "canary-7", "-alias", "client",
                  "-destkeystore", tmp_path / "keys", "-deststoretype", kind, "-deststorepass", passwords["password"],
                  "-destkeypass", passwords["key"])  # fmt: skip
    await keytool("-importcert", "-alias", "ca", "-file", kafka.authority.own.certificate,
                  "-keystore", tmp_path / "trust", *words)  # fmt: skip
    properties = {"bootstrap.servers": f"localhost:{kafka.ssl_port}", "security.protocol": "SSL"}
    for store, name in (("keystore", "keys"), ("truststore", "trust")):
        assert (tmp_path / name).read_bytes().startswith(magic)
        properties[f"ssl.{store}.location"] = str(tmp_path / name)
        properties[f"ssl.{store}.type"] = kind
        properties[f"ssl.{store}.password"] = f"${{dir:{tmp_path}:password}}"
    properties["ssl.key.password"] = f"${{dir:{tmp_path}:key}}"
    for name, password in passwords.items():
        write(tmp_path / name, f"{password}\n")
    topic = kafka.create_topic(f"stores-of-keytool-{kind}")
    providers = {"dir": DirectoryProvider([tmp_path])}
    async with Producer.from_properties(properties, providers=providers) as producer:
        assert (await producer.send_and_wait(topic, b"value")).offset == 0
    properties["ssl.key.password"] = "canary-7-wrong"
    if kind == "JKS":
        async with Producer.from_properties(properties, providers=providers) as producer:
            with pytest.raises(ConfigurationError, match="ssl_keystore_location") as caught:
                await producer.ready(30)
        assert "canary" not in report(caught.value)


def write(path: Path, text: str) -> None:
    """Replace a file."""
    path.write_text(text)


async def keytool(*arguments: object) -> None:
    """Run keytool."""
    await asyncio.to_thread(
        subprocess.run, ["keytool", *map(str, arguments)], check=True, capture_output=True
    )


async def test_a_wrong_password(kafka: SecuredKafka, tmp_path: Path) -> None:
    """`ready()` and `send()` raise the refusal; once the file has the right password, the same producer works."""
    topic = kafka.create_topic("refused")
    given = settings(kafka, "SCRAM-SHA-512", tmp_path)
    path = tmp_path / "password"
    path.write_text("wrong-canary")
    async with Producer(f"localhost:{kafka.sasl_port}", **given) as producer:
        with pytest.raises(AuthenticationError, match="refused the credentials") as caught:
            await producer.ready(60)
        with pytest.raises(AuthenticationError):
            await producer.send(topic, b"lost")
        path.write_text(SCRAM_PASSWORD)
        await producer.send_and_wait(topic, b"a")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("in_flight", [1, 5])
async def test_a_quota_while_sessions_end(kafka: SecuredKafka, in_flight: int, tmp_path: Path) -> None:
    """A broker leaves the requests of a throttled connection unread, also those of an authentication: nothing is lost by it."""
    topic, address = kafka.create_topic(f"throttled-{in_flight}"), kafka.nodes[0].address
    given = settings(kafka, "SCRAM-SHA-512", tmp_path) | {"max_in_flight_requests_per_connection": in_flight}
    loop = asyncio.get_running_loop()
    values: list[bytes] = []
    await asyncio.to_thread(limit_producer, address, USER, QUOTA)
    try:
        async with Producer(f"localhost:{kafka.sasl_port}", linger_ms=0, **given) as producer:
            until = loop.time() + 3 * SESSION_SECONDS
            while loop.time() < until:
                values += [b"%d" % (len(values) + index) + bytes(QUOTA // 4) for index in range(in_flight)]
                sent = [await producer.send(topic, value, partition=0) for value in values[-in_flight:]]
                await asyncio.gather(*sent)
            stats = producer.stats()
    finally:
        await asyncio.to_thread(limit_producer, address, USER, None)
    assert [record.value for record in read_all(kafka.bootstrap_servers, topic)] == values
    assert (stats.records_failed, stats.records_unknown) == (0, 0)
    (broker,) = (one for one in stats.connections if one.broker == "1")
    print(
        f"{len(values)} records, {broker.throttle_seconds:.1f} s throttled, {broker.reauthentications} renewals"
    )
    assert broker.throttle_seconds > SESSION_SECONDS
    assert broker.authentications + broker.reauthentications > 2
    assert broker.authentication_failures == 0

"""Ports of other programs, and of listeners with another security, at bootstrap and advertised addresses."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest

from aioproducer.doctor import Check
from aioproducer.testing import EmbeddedKafka, certificates
from tests.doctor.support import advertise, examined, of, one

Script: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
# A silent port is known by its silence: that is the only thing to wait for here.
SHORT = 1.5


async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A web server: it answers a request of its own protocol, and ends other connections."""
    if (await reader.readline()).startswith(b"HEAD"):
        writer.write(b"HTTP/1.1 404 Not Found\r\n\r\n")


async def strict_web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A web server that answers anything."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A program that accepts connections and says nothing."""
    await reader.read()


async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A program that closes each connection."""
    await reader.read(1)


async def shell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A program that speaks first."""
    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
    await reader.read(1)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A program that sends back what it gets."""
    while data := await reader.read(1000):
        writer.write(data)


@asynccontextmanager
async def listening(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a program."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]


PROGRAMS = [
    (web, "a web server answers"),
    (strict_web, "a web server answers"),
    (silent, "never answered"),
    (closing, "closed without an answer"),
    (shell, "another protocol than Kafka"),
    (echo, "another protocol than Kafka"),
]


@pytest.mark.parametrize(("script", "told"), PROGRAMS)
async def test_another_program_at_a_bootstrap_address(script: Script, told: str) -> None:
    """It is named."""
    async with listening(script) as port:
        report = await examined(f"127.0.0.1:{port}", timeout=SHORT)
    assert told in one(report, "protocol").summary


@pytest.mark.parametrize(("script", "told"), PROGRAMS)
async def test_another_program_at_an_advertised_address(script: Script, told: str) -> None:
    """The finding of the broker names it, and the advice says that it may be the port of another listener."""
    async with EmbeddedKafka(brokers=2) as kafka, listening(script) as port:
        advertise(kafka, 2, "127.0.0.1", port)
        report = await examined(kafka.bootstrap_servers, timeout=SHORT)
    broker = of(report, "brokers")[1]
    assert told in broker.summary
    assert "the port of another listener" in (broker.advice or "")


async def test_a_broker_that_is_too_slow() -> None:
    """It refuses other protocols at once; what counts is that it does not answer the question of Kafka."""
    async with EmbeddedKafka() as kafka:
        kafka.faults.silence(times=None)
        check = one(await examined(kafka.bootstrap_servers, timeout=0.5), "protocol")
    assert check.summary == "connections are accepted, and never answered"
    assert (check.advice or "").endswith("or a broker that hangs.")


async def _over_tls(kafka: EmbeddedKafka, authority: str, **settings: object) -> Check:
    """The check of TLS."""
    report = await examined(
        f"localhost:{kafka.brokers[0].port}",
        security_protocol="SSL",
        ssl_truststore_certificates=authority,
        **settings,
    )
    return of(report, "tls")[-1]


async def test_a_listener_with_tls() -> None:
    """The version, the names, and the days that are left: these certificates are valid for nine."""
    made = certificates()
    async with EmbeddedKafka(tls=made.broker_context()) as kafka:
        check = await _over_tls(kafka, made.authority)
    assert (check.status, check.detail["version"], check.detail["days_left"]) == ("warn", "TLSv1.3", 8)
    assert check.detail["names"] == ["localhost", "127.0.0.1", "::1"]
    assert "issued by CN=authority for tests" in check.summary


async def test_plaintext_settings_for_a_listener_with_tls() -> None:
    """The port speaks TLS, at once and not after the time limit."""
    async with EmbeddedKafka(tls=certificates().broker_context()) as kafka:
        report = await examined(kafka.bootstrap_servers)
    assert one(report, "protocol").summary == "the port speaks TLS"
    assert "Set security.protocol to SSL" in (one(report, "protocol").advice or "")


async def test_tls_settings_for_a_plaintext_listener() -> None:
    """Kafka is there, without TLS."""
    async with EmbeddedKafka() as kafka:
        check = await _over_tls(kafka, certificates().authority)
    assert check.summary == "the port speaks Kafka without TLS"


async def test_tls_settings_for_a_web_server() -> None:
    """The finding names it."""
    async with listening(web) as port:
        report = await examined(
            f"localhost:{port}",
            security_protocol="SSL",
            ssl_truststore_certificates=certificates().authority,
            timeout=SHORT,
        )
    assert "a web server" in one(report, "tls").summary


async def test_plaintext_settings_for_a_web_server_with_tls() -> None:
    """It is no listener of Kafka: to set security.protocol is no advice."""
    async with listening(web, certificates().broker_context()) as port:
        check = one(await examined(f"localhost:{port}", timeout=SHORT), "protocol")
    assert check.summary == "a web server answers at this port, over TLS"
    assert "belongs to a web server" in (check.advice or "")


async def test_credentials_for_a_listener_with_another_security() -> None:
    """The advice keeps the credentials."""
    sasl = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "alice", "sasl_password": "x"}
    async with EmbeddedKafka(tls=certificates().broker_context()) as kafka:
        report = await examined(kafka.bootstrap_servers, security_protocol="SASL_PLAINTEXT", **sasl)
    assert one(report, "protocol").summary == "the port speaks TLS"
    assert one(report, "protocol").advice == (
        "Set security.protocol to SASL_SSL, or use the port of a listener without TLS."
    )
    async with EmbeddedKafka() as kafka:
        report = await examined(
            f"localhost:{kafka.brokers[0].port}",
            security_protocol="SASL_SSL",
            ssl_truststore_certificates=certificates().authority,
            **sasl,
        )
    check = of(report, "tls")[-1]
    assert check.summary == "the port speaks Kafka without TLS"
    assert check.advice == "Set security.protocol to SASL_PLAINTEXT, or use the port of a listener with TLS."


async def test_two_names_of_one_address_with_tls() -> None:
    """Each has checks of its own: the certificate may cover one of them only."""
    made = certificates()
    async with EmbeddedKafka(tls=made.broker_context(made.issue(hosts=("localhost",)))) as kafka:
        port = kafka.brokers[0].port
        report = await examined(
            f"127.0.0.1:{port},localhost:{port}",
            security_protocol="SSL",
            ssl_truststore_certificates=made.authority,
        )
    assert {check.target: check.status for check in of(report, "tls")} == {
        f"127.0.0.1:{port} (127.0.0.1:{port})": "fail",
        f"localhost:{port} (127.0.0.1:{port})": "warn",
    }


async def test_a_name_that_the_certificate_does_not_cover() -> None:
    """The finding has the covered names, at a bootstrap and at an advertised address."""
    made = certificates()
    other = made.broker_context(made.issue(hosts=("kafka.example", "192.0.2.10")))
    async with EmbeddedKafka(tls=other) as kafka:
        check = await _over_tls(kafka, made.authority)
    assert "it covers kafka.example and 192.0.2.10" in check.summary
    async with EmbeddedKafka(tls=made.broker_context(made.issue(hosts=("127.0.0.1",)))) as kafka:
        advertise(kafka, 1, "localhost")
        report = await examined(
            kafka.bootstrap_servers, security_protocol="SSL", ssl_truststore_certificates=made.authority
        )
    [broker] = of(report, "brokers")
    assert "does not cover the name localhost; it covers 127.0.0.1" in broker.summary
    assert "a name that its certificate does not cover" in (broker.advice or "")


async def test_an_authority_that_is_not_trusted() -> None:
    """The advice names the issuer."""
    made = certificates("another authority")
    async with EmbeddedKafka(tls=made.broker_context()) as kafka:
        check = await _over_tls(kafka, certificates().authority)
    assert "another authority" in (check.advice or "")


async def test_a_certificate_that_has_expired() -> None:
    """The action is its renewal."""
    import datetime

    made = certificates()
    old = made.issue(lifetime=datetime.timedelta(days=-1))
    async with EmbeddedKafka(tls=made.broker_context(old)) as kafka:
        check = await _over_tls(kafka, made.authority)
    assert check.status == "fail"
    assert re.fullmatch(
        r"a certificate has expired: that of the broker \(CN=\S+\) is valid until \d{4}-\d\d-\d\d \d\d:\d\d UTC, "
        "issued by CN=authority for tests",
        check.summary,
    )
    assert (check.advice or "").startswith("Renew the certificate of the broker. If it is valid still,")


async def test_a_listener_that_wants_certificates() -> None:
    """Without one it is the key store of the client; with one the report has its days."""
    made = certificates()
    own = made.issue("alice", hosts=())
    async with EmbeddedKafka(tls=made.broker_context(mutual=True)) as kafka:
        check = await _over_tls(kafka, made.authority)
        assert "ssl.keystore.location" in (check.advice or "")
        report = await examined(
            f"localhost:{kafka.brokers[0].port}",
            security_protocol="SSL",
            ssl_truststore_certificates=made.authority,
            ssl_keystore_certificate_chain=own.certificate,
            ssl_keystore_key=own.key,
        )
    first, second = of(report, "tls")
    assert (first.target, first.detail["subject"]) == ("own certificate", "CN=alice")
    assert (second.status, report.exit_code) == ("warn", 0)


async def test_files_that_are_missing() -> None:
    """It is a problem of the configuration; the address is examined as far as possible."""
    async with EmbeddedKafka() as kafka:
        report = await examined(
            kafka.bootstrap_servers, security_protocol="SSL", ssl_truststore_location="/missing/trust.pem"
        )
    assert "ssl_truststore_location" in one(report, "config").summary
    assert (one(report, "tcp").status, one(report, "tls").status, report.exit_code) == ("ok", "skip", 2)

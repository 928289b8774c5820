"""A cluster, or an attacker in its place, advertises addresses of others: they get no credential."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from aioproducer import AuthenticationError, DeliveryTimeoutError, Outcome, Producer, ProtocolError
from aioproducer._wire.messages.metadata import MetadataResponse
from aioproducer.testing import EmbeddedKafka, certificates
from tests.connection.peer import serving
from tests.net.support import until

CANARY = "canary-11"
LIMIT = 20.0
CREDENTIALS: dict[str, Any] = {
    "sasl_mechanism": "PLAIN",
    "sasl_username": "alice",
    "sasl_password": CANARY,
    "delivery_timeout_ms": 600,
    "request_timeout_ms": 500,
}


@attrs.define
class Thief:
    """Takes what it gets."""

    accepted: int = 0
    received: bytearray = attrs.field(factory=bytearray)

    async def serve(self, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        """Read, and answer nothing."""
        self.accepted += 1
        while data := await reader.read(65536):
            self.received.extend(data)


def advertising(host: str, port: int) -> Callable[[MetadataResponse], MetadataResponse]:
    """An answer in which every broker has this address."""

    def change(answer: MetadataResponse) -> MetadataResponse:
        return answer._replace(brokers=[each._replace(host=host, port=port) for each in answer.brokers])

    return change


@contextmanager
def quiet() -> Iterator[None]:
    """Handshakes that fail are reported to the loop by the servers of asyncio."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)
    try:
        yield
    finally:
        loop.set_exception_handler(None)


@pytest.mark.parametrize("authority", ["another", "none"])
async def test_an_address_without_the_certificate(authority: str, tmp_path: Path) -> None:
    """The record is not written, and the thief gets no byte behind the handshake, without any setting (S24)."""
    own, foreign, thief = certificates(), certificates(), Thief()
    context: ssl.SSLContext | None = None
    if authority == "another":
        path = tmp_path / "thief.pem"
        path.write_text(foreign.issue().pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
    async with (
        asyncio.timeout(LIMIT),
        EmbeddedKafka(tls=own.broker_context(), users={"alice": CANARY}) as kafka,
        serving(thief.serve, context) as port,
    ):
        kafka.create_topic("t")
        kafka.faults.alter(advertising("127.0.0.1", port), api="Metadata", times=None)
        async with Producer(
            kafka.bootstrap_servers,
            security_protocol="SASL_SSL",
            ssl_truststore_certificates=own.authority,
            **CREDENTIALS,
        ) as producer:
            with quiet():
                delivery = await producer.send("t", b"value")
                with pytest.raises(DeliveryTimeoutError) as caught:
                    await delivery
        assert delivery.outcome is Outcome.NOT_WRITTEN
        if context is not None:
            cause = caught.value.__cause__
            assert isinstance(cause, AuthenticationError)
            assert cause.reason == "certificate"
            assert thief.received == b""
        assert CANARY.encode() not in thief.received
        assert b"alice" not in thief.received


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("is_limited", [True, False])
async def test_an_address_of_a_thief_with_a_certificate(protocol: str, *, is_limited: bool) -> None:
    """A name with a certificate of a trusted authority, or a cluster without TLS: `allowed_brokers` is the protection (S23)."""
    own, thief = certificates(), Thief()
    has_tls = protocol == "SASL_SSL"
    tls: dict[str, Any] = {"security_protocol": protocol}
    if has_tls:
        tls["ssl_truststore_certificates"] = own.authority
    else:
        tls["allow_plaintext_credentials"] = True
    async with (
        asyncio.timeout(LIMIT),
        EmbeddedKafka(tls=own.broker_context() if has_tls else None, users={"alice": CANARY}) as kafka,
        serving(thief.serve, own.broker_context(own.issue(hosts=["localhost"])) if has_tls else None) as port,
    ):
        kafka.create_topic("t")
        kafka.faults.alter(advertising("localhost", port), api="Metadata", times=None)
        limits: dict[str, Any] = {"allowed_brokers": ["127.0.0.0/8"]} if is_limited else {}
        async with Producer(kafka.bootstrap_servers, **tls, **CREDENTIALS, **limits) as producer:
            delivery = await producer.send("t", b"value")
            with pytest.raises(DeliveryTimeoutError) as caught:
                await delivery
        assert delivery.outcome is Outcome.NOT_WRITTEN
        if is_limited:
            assert thief.accepted == 0
            assert isinstance(caught.value.__cause__, ProtocolError)
            assert f"does not allow localhost:{port}; it is advertised by" in str(caught.value.__cause__)
        else:
            assert thief.accepted > 0


def swapped(answer: MetadataResponse) -> MetadataResponse:
    """The two brokers have the address of each other."""
    first, second = answer.brokers
    return answer._replace(
        brokers=[
            first._replace(host=second.host, port=second.port),
            second._replace(host=first.host, port=first.port),
        ]
    )


async def test_node_ids_are_swapped() -> None:
    """Brokers refuse records of partitions that they do not lead; with true metadata each is there once, in order."""
    values = [b"%d" % number for number in range(50)]
    async with asyncio.timeout(LIMIT), EmbeddedKafka(2, users={"alice": CANARY}) as kafka:
        kafka.create_topic("t", 2)
        fault = kafka.faults.alter(swapped, api="Metadata", times=None)
        settings = CREDENTIALS | {"delivery_timeout_ms": 30_000}
        async with Producer(
            kafka.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            allow_plaintext_credentials=True,
            retry_backoff_ms=5,
            **settings,
        ) as producer:
            sent = [producer.send_nowait("t", value, partition=0) for value in values]
            sent += [producer.send_nowait("t", value, partition=1) for value in values]
            await until(lambda: sum(one.api == "Produce" for one in kafka.requests) >= 4)
            assert kafka.records("t") == []
            fault.heal()
            await asyncio.gather(*sent)
        for partition in (0, 1):
            found = [record.value for record in kafka.records("t") if record.partition == partition]
            assert found == values

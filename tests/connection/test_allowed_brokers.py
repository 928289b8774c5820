"""A cluster that advertises an address which the application does not allow: it is neither looked up nor dialed (S23)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer import DeliveryTimeoutError, Outcome, Producer, ProducerConfig, ProtocolError
from aioproducer._net.connecting.dialing import dial
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer.testing import EmbeddedKafka


class NoNetwork:
    """A network that nothing may use."""

    async def look_up(self, host: str, port: int) -> list[Any]:
        raise AssertionError(host)

    async def create_connection(
        self, make: Callable[[], Any], address: str, port: int, **tls: Any
    ) -> tuple[asyncio.BaseTransport, Any]:
        raise AssertionError(address)


@pytest.mark.parametrize("host", ["metadata.internal", "169.254.169.254", "::1"])
async def test_a_refused_broker_is_not_looked_up(host: str) -> None:
    """Neither the name server nor the address hears of it."""
    config = ProducerConfig("first.example:9092", allowed_brokers=["*.example", "10.0.0.0/8"])
    with pytest.raises(ProtocolError, match=r"allowed_brokers does not allow .*; it is advertised by first"):
        await dial(BrokerEndpoint.advertised(host, 80, 3, "first"), config, network=NoNetwork())


async def test_a_producer_that_is_led_astray() -> None:
    """The record is not written, and its error names the broker that advertised the address; an allowed one is used."""
    async with EmbeddedKafka() as kafka:
        host, port = kafka.bootstrap_servers.split(":")
        servers = f"{'localhost' if host == '127.0.0.1' else '127.0.0.1'}:{port}"
        limits: dict[str, Any] = {"delivery_timeout_ms": 400, "request_timeout_ms": 300}
        async with Producer(servers, allowed_brokers="*.example", **limits) as producer:
            delivery = await producer.send("t", b"value")
            with pytest.raises(DeliveryTimeoutError) as caught:
                await delivery
        assert delivery.outcome is Outcome.NOT_WRITTEN
        assert isinstance(caught.value.__cause__, ProtocolError)
        assert f"does not allow {host}:{port}; it is advertised by {servers}" in str(caught.value.__cause__)
        async with Producer(servers, allowed_brokers=host, **limits) as producer:
            assert (await producer.send_and_wait("t", b"value")).offset == 0

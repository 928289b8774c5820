"""The credentials of each authentication, after a broker refused those before."""

from __future__ import annotations

import asyncio
import random

import pytest

from aioproducer import ProducerConfig
from aioproducer._net.log import log_of
from aioproducer._net.securing import sources
from aioproducer._state.connecting.endpoint import BrokerEndpoint


async def test_refused_tickets_come_from_the_kdc_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker may have another key. The library frees no cache, so there is one more a minute at most."""
    monkeypatch.setattr(sources, "require_gssapi", lambda: None)
    loop = asyncio.get_running_loop()
    now = 1000.0
    monkeypatch.setattr(loop, "time", lambda: now)
    config = ProducerConfig(
        bootstrap_servers="127.0.0.1:9092",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name="kafka",
        sasl_kerberos_principal="orders@X.EXAMPLE",
        sasl_kerberos_keytab="/etc/orders.keytab",
    )
    source = sources.source_of(config, loop, log_of("tests"), random.Random(1))
    endpoint = BrokerEndpoint.bootstrap("b.example", 9092)
    caches = []
    for passed in (0.0, 1.0, 58.0, 2.0):
        now += passed
        given = await source.given(endpoint)
        caches.append(given.store["ccache"])
        source.refused(given)
    first, second, third, fourth = caches
    assert first != second
    assert second == third == fourth
    assert (await source.given(endpoint)).store["ccache"] not in (first, second)

"""TLS, SCRAM, sessions that end and new credentials on each kind of event loop: no task, thread or socket is left."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka, certificates
from tests.loops import WITH_OTHER_TLS, run_on
from tests.net.conftest import QUICK, open_sockets
from tests.net.support import LIMIT, until

RENEWALS = 2


@pytest.fixture(autouse=True)
def nothing_left() -> None:
    """These tests have loops of their own, and check them themselves."""


@pytest.mark.parametrize("loop", WITH_OTHER_TLS)
def test_a_secured_producer(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are there once and in order over all of it."""
    monkeypatch.setattr("aioproducer._net.connecting.replacing._TAKEN_WITHIN", 0.05)
    authority = certificates()
    tls = authority.broker_context()
    settings: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_certificates": authority.authority,
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": "alice",
        "sasl_password": "first",
    }
    before, sockets = set(threading.enumerate()), open_sockets()

    async def scenario() -> None:
        users = {"alice": "first"}
        async with EmbeddedKafka(2, tls=tls, users=users, session_lifetime=1.5) as kafka:
            async with Producer(kafka.bootstrap_servers, **QUICK, **settings) as producer:
                values: list[bytes] = []
                while sum(one.reauthentications for one in producer.stats().connections) < RENEWALS:
                    values.append(b"%d" % len(values))
                    await producer.send_and_wait("orders", values[-1])
                kafka.users["alice"] = "second"
                producer.set_credentials(password="second")
                await producer.reload_certificates()
                for _ in range(10):
                    values.append(b"%d" % len(values))
                    await producer.send_and_wait("orders", values[-1])
                # A connection of aiofastnet that is cancelled in its handshake is deleted with a ResourceWarning.
                assert producer._engine is not None
                replacement = producer._engine.addresses._replacement
                await until(lambda: not replacement._former)
            assert [record.value for record in kafka.records("orders")] == values

    run_on(loop, scenario)
    for thread in set(threading.enumerate()) - before:
        thread.join(LIMIT)
        assert not thread.is_alive(), thread
    assert open_sockets() <= sockets

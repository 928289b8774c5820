"""The log of a secured producer at DEBUG shows no secret, and nothing of a record, whatever goes wrong (S18)."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from aioproducer import AuthenticationError, KafkaError, Producer
from aioproducer.testing import EmbeddedKafka, Fault, unsecured_token
from tests.net.conftest import QUICK

CANARY = "canary-11"
LIMITS = {"request_timeout_ms": 1_000, "delivery_timeout_ms": 1_500}
"""Records that are accepted while the client is refused end soon."""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")


def credentials(mechanism: str, given: list[str]) -> dict[str, Any]:
    """Settings of a client; `given` gets each token."""
    settings: dict[str, Any] = {"sasl_mechanism": mechanism, "allow_plaintext_credentials": True}
    if mechanism != "OAUTHBEARER":
        return {**settings, "sasl_username": "alice", "sasl_password": CANARY}

    async def provide() -> str:
        given.append(unsecured_token("alice"))
        return given[-1]

    return {**settings, "sasl_token_provider": provide}


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_no_secret_is_logged(mechanism: str, caplog: pytest.LogCaptureFixture) -> None:
    """Refusals, nonsense, cut connections, sessions that end, and records that a broker refuses."""
    caplog.set_level(logging.DEBUG, "aioproducer")
    tokens: list[str] = []
    settings = {"security_protocol": "SASL_PLAINTEXT", **QUICK, **LIMITS, **credentials(mechanism, tokens)}
    async with EmbeddedKafka(users={"alice": CANARY}, session_lifetime=1.5) as kafka:
        faults = kafka.faults
        async with Producer(kafka.bootstrap_servers, **settings) as producer:
            kinds: tuple[Callable[[], Fault], ...] = (
                lambda: faults.sasl(1),
                lambda: faults.sasl(1, lambda token: token + b"?"),
                lambda: faults.garbage(api="SaslAuthenticate"),
                lambda: faults.cut(api="SaslAuthenticate"),
                lambda: faults.cut(api="Produce"),
                lambda: faults.error("INVALID_RECORD"),
            )
            for fault in kinds:
                faults.drop_connections(1)
                with fault():
                    await tried(producer)
                if mechanism != "OAUTHBEARER":
                    producer.set_credentials(password=CANARY)  # the pause behind a refusal ends
            while sum(one.reauthentications for one in producer.stats().connections) < 1:
                await tried(producer)
            kafka.users["alice"] = "another"
            faults.drop_connections(1)
            await tried(producer)
    assert any(record.levelno == logging.DEBUG for record in caplog.records)
    shown = caplog.text + "".join(str(record.__dict__) for record in caplog.records)
    for hidden in (CANARY, base64.b64encode(CANARY.encode()).decode(), *tokens):
        assert hidden not in shown


async def tried(producer: Producer[Any, Any]) -> None:
    """Send a record, which may fail."""
    with suppress(AuthenticationError, KafkaError, TimeoutError):
        await producer.send_and_wait(
            "orders", CANARY.encode(), key=CANARY.encode(), headers=[("kind", CANARY.encode())]
        )

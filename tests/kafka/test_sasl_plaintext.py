"""A listener of SASL without TLS: each mechanism is accepted, refused, and told apart from a listener without SASL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aioproducer import AuthenticationError, Producer, ProtocolError
from tests.kafka.reading import read_all
from tests.kafka.secured import USER, SecuredKafka
from tests.kafka.test_secured_producer import MECHANISMS, settings

pytestmark = pytest.mark.kafka


@pytest.fixture
def kafka(secured_kafka: SecuredKafka) -> SecuredKafka:
    return secured_kafka


def without_tls(kafka: SecuredKafka, mechanism: str, tmp_path: Path) -> dict[str, Any]:
    """The settings of the mechanism for this listener."""
    given = settings(kafka, mechanism, tmp_path)
    del given["ssl_truststore_location"]
    return given | {
        "bootstrap_servers": f"localhost:{kafka.sasl_plaintext_port}",
        "security_protocol": "SASL_PLAINTEXT",
        # SCRAM does not send the password.
        "allow_plaintext_credentials": not mechanism.startswith("SCRAM"),
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_mechanism(kafka: SecuredKafka, mechanism: str, tmp_path: Path) -> None:
    """A record is written."""
    topic = kafka.create_topic(f"without-tls-{mechanism.lower()}")
    async with Producer(**without_tls(kafka, mechanism, tmp_path)) as producer:
        await producer.send_and_wait(topic, b"a")
    assert [record.value for record in read_all(kafka.bootstrap_servers, topic)] == [b"a"]


@pytest.mark.parametrize("user", [USER, "nobody"])
@pytest.mark.parametrize("mechanism", [one for one in MECHANISMS if one != "OAUTHBEARER"])
async def test_refused_credentials(kafka: SecuredKafka, mechanism: str, user: str, tmp_path: Path) -> None:
    """A wrong password and an unknown user give the same error."""
    given = without_tls(kafka, mechanism, tmp_path) | {"sasl_username": user, "sasl_password": "wrong-canary"}
    given.pop("sasl_jaas_config", None)
    error = await failure(given)
    assert (error.reason, error.mechanism, error.code) == ("credentials", mechanism, 58)


async def failure(given: dict[str, Any]) -> AuthenticationError:
    """The error that `ready()` raises."""
    async with Producer(**given) as producer:
        with pytest.raises(AuthenticationError) as caught:
            await producer.ready(30)
    assert "canary" not in str(caught.value)
    return caught.value


async def test_a_mechanism_that_the_listener_does_not_have(kafka: SecuredKafka, tmp_path: Path) -> None:
    """The error names those that it has; no other is tried."""
    given = settings(kafka, "SCRAM-SHA-256", tmp_path)
    error = await failure(given | {"bootstrap_servers": f"localhost:{kafka.oidc_port}"})
    assert (error.reason, error.mechanism, error.code) == ("mechanism", "SCRAM-SHA-256", 33)
    assert "OAUTHBEARER" in str(error)


async def test_a_listener_without_sasl(kafka: SecuredKafka, tmp_path: Path) -> None:
    """It is no refusal of credentials."""
    given = without_tls(kafka, "SCRAM-SHA-256", tmp_path) | {"bootstrap_servers": kafka.bootstrap_servers}
    async with Producer(**given) as producer:
        with pytest.raises(TimeoutError) as caught:
            await producer.ready(1)
    assert isinstance(caught.value.__cause__, ProtocolError)
    assert "does not support SASL" in str(caught.value)

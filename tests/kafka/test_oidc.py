"""OAUTHBEARER with an identity provider whose signatures a real Kafka verifies: keys change, tokens are wrong (KIP-768)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from aioproducer import AuthenticationError, Producer
from tests.certificates import openssl
from tests.kafka.identity_provider import CLIENT, CLIENT_SECRET, FAULTS, ISSUER
from tests.kafka.reading import read_all
from tests.kafka.secured import SecuredKafka
from tests.kafka.sending import sending

pytestmark = pytest.mark.kafka
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
TOKEN_SECONDS = 3.0


@pytest.fixture
def kafka(secured_kafka: SecuredKafka) -> SecuredKafka:
    return secured_kafka


def endpoint(kafka: SecuredKafka, path: str = "token") -> dict[str, Any]:
    """The settings of a client of the identity provider, without what it proves itself with."""
    authority = kafka.authority.own.certificate
    return {
        "bootstrap_servers": f"localhost:{kafka.oidc_port}",
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": str(authority),
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": kafka.provider.url(path),
        "sasl_jaas_config": f'{MODULE} ssl.truststore.location="{authority}";',
        "linger_ms": 0,
    }


def secret(secret: str = CLIENT_SECRET) -> dict[str, str]:
    """The settings of client credentials."""
    return {
        "sasl_oauthbearer_client_credentials_client_id": CLIENT,
        "sasl_oauthbearer_client_credentials_client_secret": secret,
    }


async def test_e20_the_keys_change_while_records_are_sent(kafka: SecuredKafka) -> None:
    """Sessions end with tokens; the broker knows the new key after a refusal, and no record is lost, doubled or reordered."""
    kafka.provider.token_seconds = TOKEN_SECONDS
    try:
        async with sending(kafka, "oidc", **endpoint(kafka), **secret()) as sender:
            await sender.authenticates_again()
            (broker,) = (one for one in sender.producer.stats().connections if one.broker == "1")
            assert broker.session_ends_in is not None
            assert broker.session_ends_in <= TOKEN_SECONDS
            assert (broker.connects, broker.failures) == (1, 0)
            assert broker.reauthentications >= 1
            kafka.provider.change_key()
            issued = kafka.provider.issued
            # `exp` has whole seconds: the session of a broker may end a second before the client takes its token for old,
            # and is renewed with it once.
            while kafka.provider.issued == issued:
                await sender.authenticates_again()
            await sender.authenticates_again()
    finally:
        kafka.provider.token_seconds = 600.0


async def failure(settings: dict[str, Any]) -> AuthenticationError:
    """The error that `ready()` raises."""
    async with Producer(**settings) as producer:
        with pytest.raises(AuthenticationError) as caught:
            await producer.ready(30)
    assert caught.value.mechanism == "OAUTHBEARER"
    assert "canary" not in str(caught.value) + repr(caught.value)
    return caught.value


@pytest.mark.parametrize("fault", [*FAULTS, "foreign"])
async def test_tokens_that_a_broker_refuses(kafka: SecuredKafka, fault: str) -> None:
    """Expired, for another service, of another issuer, without a user, or signed with another key."""
    error = await failure(endpoint(kafka, f"token/{fault}") | secret())
    assert (error.reason, error.code) == ("credentials", 58)


async def test_a_wrong_secret(kafka: SecuredKafka) -> None:
    """The identity provider refuses it: the broker is not asked, and only the name of the error is shown."""
    error = await failure(endpoint(kafka) | secret("wrong-canary"))
    assert (error.reason, error.code) == ("token", None)
    assert "invalid_client" in str(error)


@pytest.mark.parametrize("is_grant", [False, True], ids=["of the client", "of the grant"])
async def test_a_signed_assertion(kafka: SecuredKafka, tmp_path: Path, *, is_grant: bool) -> None:
    """A key takes the place of the secret: the identity provider verifies its signature (KIP-1258, KIP-1139)."""
    key, public = tmp_path / "client.key", tmp_path / "client.pub"
    openssl("genpkey", "-algorithm", "RSA", "-out", key)
    openssl("pkey", "-in", key, "-pubout", "-out", public)
    kafka.provider.client_key = load_pem_public_key(public.read_bytes())
    given: dict[str, Any] = endpoint(kafka) | {
        "sasl_oauthbearer_assertion_private_key_file": str(key),
        "sasl_oauthbearer_assertion_algorithm": "RS256",
        "sasl_oauthbearer_assertion_claim_iss": CLIENT,
        "sasl_oauthbearer_assertion_claim_sub": CLIENT,
        "sasl_oauthbearer_assertion_claim_aud": ISSUER,
    }
    if is_grant:
        given["sasl_oauthbearer_jwt_retriever_class"] = (
            "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
        )
    topic = kafka.create_topic(f"oidc-{'grant' if is_grant else 'client'}")
    async with Producer(**given) as producer:
        await producer.send_and_wait(topic, b"a")
    assert [record.value for record in read_all(kafka.bootstrap_servers, topic)] == [b"a"]
    openssl("genpkey", "-algorithm", "RSA", "-out", key)
    assert (await failure(given)).reason == "token"

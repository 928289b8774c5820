"""Assertions that the client signs for a token endpoint: the requests, the files that are read again, and their faults."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from aioproducer import ConfigurationError, ProducerConfig, SecretFile
from aioproducer._net.securing.assertions import assertion_of
from aioproducer._net.securing.calling import UserFunctions
from aioproducer.errors import KafkaError
from tests.certificates import Authority, openssl
from tests.kafka_jars import class_path, program
from tests.net.securing.test_token_endpoint import GOOD, form_of, source
from tests.net.securing.token_server import TokenServer
from tests.reports import report

CANARY = "canary-8"
NOW = 1_000_000
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def server(authority: Authority) -> AsyncIterator[TokenServer]:
    async with TokenServer([GOOD, GOOD]).running(authority.issue("idp")) as running:
        yield running


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A private key; its public part is beside it."""
    return new_key(tmp_path)


def new_key(folder: Path) -> Path:
    """A private key in place of a former one."""
    path = folder / "key.pem"
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)
    openssl("pkey", "-in", path, "-pubout", "-out", path.with_suffix(".pub"))
    return path


def config(server: TokenServer, authority: Authority, key: Path, **settings: Any) -> ProducerConfig:
    """The settings of a client that signs assertions."""
    given: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": server.url,
        "sasl_oauthbearer_assertion_private_key_file": str(key),
        "sasl_oauthbearer_assertion_algorithm": "es256",
        "sasl_oauthbearer_assertion_claim_iss": "alice",
        "sasl_jaas_config": f'{MODULE} ssl.truststore.location="{authority.own.certificate}";',
    }
    return ProducerConfig("localhost:9092", **given | settings)


def claims_of(assertion: str, key: Path) -> dict[str, Any]:
    """The claims of an assertion that this key has signed."""
    options: Any = {"verify_exp": False, "verify_aud": False}
    found: dict[str, Any] = jwt.decode(
        assertion, key.with_suffix(".pub").read_text(), algorithms=["ES256"], options=options
    )
    return found


async def test_client_credentials_with_a_signed_assertion(
    server: TokenServer, authority: Authority, key: Path
) -> None:
    """It takes the place of the secret (KIP-1258); each one has its own identifier, and a new key is used at once."""
    settings = config(
        server,
        authority,
        key,
        sasl_oauthbearer_assertion_claim_aud="https://idp.example",
        sasl_oauthbearer_assertion_claim_sub="bob",
        sasl_oauthbearer_assertion_claim_jti_include=True,
        sasl_oauthbearer_assertion_claim_exp_seconds=20,
        sasl_oauthbearer_assertion_claim_nbf_seconds=0,
        sasl_oauthbearer_client_credentials_client_id="orders",
    )
    clock = [NOW + 0.5]
    tokens = source(settings, clock=lambda: clock[0])
    await tokens.credentials()
    first = claims_of(form_of(server.requests[0])["client_assertion"], key)
    clock[0] += 3600
    new_key(key.parent)
    await tokens.credentials()
    form = form_of(server.requests[1])
    second = claims_of(form.pop("client_assertion"), key)
    assert first.pop("jti") != second.pop("jti")
    fixed = {"aud": "https://idp.example", "iss": "alice", "sub": "bob"}
    for found, now in ((first, NOW), (second, NOW + 3600)):
        assert found == {**fixed, "iat": now, "exp": now + 20, "nbf": now}
    assert form == {
        "grant_type": "client_credentials",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_id": "orders",
    }


async def test_the_grant_of_a_signed_assertion(
    server: TokenServer, authority: Authority, key: Path, tmp_path: Path
) -> None:
    """The assertion is the grant itself (KIP-1139), with the parts of a template."""
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"header": {"kid": "1"}, "payload": {"sub": "carol"}}))
    settings = config(
        server,
        authority,
        key,
        sasl_oauthbearer_jwt_retriever_class="JwtBearerJwtRetriever",
        sasl_oauthbearer_assertion_template_file=str(template),
    )
    await source(settings).credentials()
    form = form_of(server.requests[0])
    assert form["grant_type"] == BEARER
    assert claims_of(form["assertion"], key)["sub"] == "carol"
    assert jwt.get_unverified_header(form["assertion"]) == {"alg": "ES256", "typ": "JWT", "kid": "1"}


async def test_a_passphrase_that_is_a_file(
    server: TokenServer, authority: Authority, key: Path, tmp_path: Path
) -> None:
    """Key and passphrase may be replaced together while the producer runs."""
    encrypted, passphrase = tmp_path / "encrypted.pem", tmp_path / "passphrase"
    encrypted.with_suffix(".pub").write_text(key.with_suffix(".pub").read_text())
    settings = config(
        server,
        authority,
        encrypted,
        sasl_oauthbearer_assertion_private_key_passphrase=SecretFile(passphrase),
    )
    clock = [float(NOW)]
    tokens = source(settings, clock=lambda: clock[0])
    for index, word in enumerate((CANARY, "another")):
        openssl("pkcs8", "-topk8", "-in", key, "-out", encrypted, "-passout", f"pass:{word}")
        passphrase.write_text(f"{word}\n")
        await tokens.credentials()
        claims_of(form_of(server.requests[index])["client_assertion"], encrypted)
        clock[0] += 3600


@pytest.mark.kafka
async def test_the_assertion_of_java(key: Path, tmp_path: Path) -> None:
    """Kafka's own client makes the same header and the same claims of the same properties and the same template."""
    template = tmp_path / "template.json"
    template.write_text(
        '{"header": {"kid": "1", "alg": "x"}, "payload": {"sub": "carol", "exp": 1, "jti": "x", "a": [1]}}'
    )
    prefix = "sasl.oauthbearer.assertion"
    properties = {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
        f"{prefix}.private.key.file": str(key),
        f"{prefix}.algorithm": "ES256",
        f"{prefix}.template.file": str(template),
        f"{prefix}.claim.iss": "alice",
        f"{prefix}.claim.sub": "bob",
        f"{prefix}.claim.aud": "idp",
        f"{prefix}.claim.exp.seconds": "20",
    }
    path = tmp_path / "client.properties"
    path.write_text("\n".join(f"{name}={value}" for name, value in properties.items()))
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={key},{template}"
    source = str(Path(__file__).with_name("AssertionOfJava.java"))
    command = [program("java"), allowed, "-cp", class_path(), source, str(path)]
    made = await asyncio.to_thread(
        subprocess.run, command, check=True, capture_output=True, text=True, timeout=60
    )
    theirs = made.stdout.split()[-1]
    settings = ProducerConfig.from_properties(
        properties, sasl_oauthbearer_allowed_urls="https://idp.example/*"
    )
    signed_at = jwt.decode(theirs, options={"verify_signature": False})["iat"]
    ours = (await assertion_of(settings, signed_at, UserFunctions())).reveal()
    assert jwt.get_unverified_header(ours) == jwt.get_unverified_header(theirs)
    assert claims_of(ours, key) == claims_of(theirs, key)


async def refused(settings: ProducerConfig) -> str:
    """The text of the error. Neither it nor a frame of the library has a secret."""
    with pytest.raises(KafkaError) as caught:
        await source(settings).credentials()
    assert isinstance(caught.value, ConfigurationError)
    shown = report(caught.value)
    assert [one for one in (CANARY, "PRIVATE KEY---", "MII", "MHc") if one in shown] == []
    return str(caught.value)


async def test_files_that_cannot_be_used(
    server: TokenServer,
    authority: Authority,
    key: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error names the setting, the file and the fault (S17); nothing is sent."""
    caplog.set_level(logging.DEBUG)
    name = "sasl_oauthbearer_assertion_private_key_file"
    missing = tmp_path / "none.pem"
    assert f"{name}={missing}: No such file" in await refused(config(server, authority, missing))
    odd = tmp_path / "odd.pem"
    odd.write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in await refused(config(server, authority, odd))
    encrypted = tmp_path / "encrypted.pem"
    openssl("pkcs8", "-topk8", "-in", key, "-out", encrypted, "-passout", "pass:other")
    passphrase = {"sasl_oauthbearer_assertion_private_key_passphrase": CANARY}
    assert "may be wrong" in await refused(config(server, authority, encrypted, **passphrase))
    rsa = {"sasl_oauthbearer_assertion_algorithm": "RS256"}
    assert "RS256 requires an RSA key" in await refused(config(server, authority, key, **rsa))
    template = tmp_path / "template.json"
    template.write_text(f'{{"header": {{"{CANARY}": 1}}, "payload": 1}}')
    of_template = {"sasl_oauthbearer_assertion_template_file": str(template)}
    text = await refused(config(server, authority, key, **of_template))
    assert f"sasl_oauthbearer_assertion_template_file={template}: it is no JSON object" in text
    monkeypatch.setitem(sys.modules, "aioproducer.security.tokens.signing", None)
    assert "pip install 'aioproducer[jwt]'" in await refused(config(server, authority, key))
    assert server.requests == []
    assert CANARY not in caplog.text

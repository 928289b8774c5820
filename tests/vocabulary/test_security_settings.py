"""Security settings: combinations, JAAS strings, files of Java clients, and secrets that no text shows."""

from __future__ import annotations

import logging
import pickle
import re
import ssl
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aioproducer import (
    ConfigurationError,
    Coordinators,
    KafkaError,
    Producer,
    ProducerConfig,
    Secret,
    SecretEnv,
    SecretFile,
    TransactionHandle,
    check_topics,
    committed_offsets,
    fence,
    list_transactions,
)
from aioproducer.config import SETTINGS
from aioproducer.config.security.conflicts import CREDENTIALS_IN_CLEAR, PASSWORD_MECHANISMS
from aioproducer.security.sasl.mechanisms import MECHANISMS
from aioproducer.testing import MockProducer

SERVER = "localhost:9093"
CANARY = "canary-7"
PLAIN: dict[str, Any] = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "alice",
    "sasl_password": CANARY,
}
BY_TOKENS: dict[str, Any] = {"sasl_mechanism": "OAUTHBEARER", "sasl_username": None, "sasl_password": None}
MODULES = "org.apache.kafka.common.security"
JAVA = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required username="a" password="{CANARY}";',
}


def test_the_mechanisms_of_settings_are_those_of_the_table() -> None:
    """The settings know which mechanisms take a password, and which send the secret itself."""
    assert {*PASSWORD_MECHANISMS, "OAUTHBEARER", "GSSAPI"} == set(MECHANISMS)
    assert {name for name, row in MECHANISMS.items() if row.reveals} == set(CREDENTIALS_IN_CLEAR)


TOKENS: dict[str, Any] = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_token_provider": lambda: "token",
}


def of_endpoint(options: str) -> dict[str, Any]:
    """Settings of a token endpoint with these options of TLS."""
    jaas = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required {options};"
    return {**TOKENS, "sasl_jaas_config": jaas}


def by_jaas(options: str) -> dict[str, Any]:
    """Settings of PLAIN with the user in a JAAS string."""
    jaas = f"{MODULES}.plain.PlainLoginModule required {options};"
    return {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": jaas}


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"sasl_username": "a"}, "sasl_username: has no effect with security_protocol='PLAINTEXT'"),
        ({"ssl_truststore_location": "ca"}, "ssl_truststore_location: has no effect"),
        ({"security_protocol": "SSL", "sasl_password": "x"}, "sasl_password: has no effect"),
        ({"security_protocol": "SASL_SSL", "sasl_username": "a"}, "set it, such as 'SCRAM-SHA-512'"),
        ({"security_protocol": "SASL_SSL"}, "sasl_kerberos_service_name: is missing"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI", "sasl_username": "a"},
            "sasl_username: has no effect with sasl_mechanism='GSSAPI'",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_kerberos_keytab": "k"},
            "sasl_kerberos_keytab: has no effect with sasl_mechanism='PLAIN'",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "a"},
            "sasl_password: is missing",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "sasl_token_provider: is missing",
        ),
        ({**PLAIN, "security_protocol": "SASL_PLAINTEXT"}, "allow_plaintext_credentials=True"),
        ({**PLAIN, "sasl_password": f"{CANARY}\udc80"}, "sasl_password: has a lone surrogate"),
        ({**PLAIN, "sasl_password": Secret(f"{CANARY}\ud800")}, "sasl_password: has a lone surrogate"),
        ({**PLAIN, "sasl_password": ""}, "sasl_password: is empty"),
        ({**PLAIN, "sasl_password": f"{CANARY}\0"}, "sasl_password: has a NUL character"),
        (by_jaas('username="" password="x"'), "sasl_username: is empty"),
        (by_jaas('username="a\\nb" password="x"'), "sasl_username: has a control character"),
        ({**TOKENS, "sasl_extensions": {"auth": "x"}}, "sasl_extensions: the name of a SASL extension"),
        ({**TOKENS, "sasl_extensions": {"a-b": "x"}}, "sasl_extensions: the name of a SASL extension"),
        ({**TOKENS, "sasl_extensions": {"a": ""}}, "sasl_extensions: the SASL extension 'a' is empty"),
        ({**PLAIN, "sasl_scram_token_auth": True}, "requires a SCRAM mechanism"),
        (
            {"security_protocol": "SSL", "ssl_keystore_key": "KEY"},
            "ssl_keystore_certificate_chain: is missing",
        ),
        ({"security_protocol": "SSL", "ssl_keystore_password": "x"}, "requires ssl_keystore_location"),
        ({"security_protocol": "SSL", "ssl_enabled_protocols": "TLSv1.1"}, "TLSv1.1 is not safe"),
        ({"security_protocol": "SSL", "ssl_cipher_suites": "RC4-MD5"}, "AES-GCM or ChaCha20"),
        ({"security_protocol": "SSL", "ssl_context": 5}, "must be ssl.SSLContext"),
        (
            {"security_protocol": "SSL", "ssl_context": ssl.create_default_context, "ssl_key_password": "x"},
            "ssl_key_password: has no effect with ssl_context",
        ),
        (
            {**PLAIN, "sasl_jaas_config": f"{MODULES}.plain.PlainLoginModule required;"},
            "sasl_jaas_config stands for it",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "PLAIN",
                "sasl_jaas_config": f"{MODULES}.scram.ScramLoginModule required;",
            },
            "ScramLoginModule requires sasl_mechanism='SCRAM-SHA-256' or 'SCRAM-SHA-512'",
        ),
        (of_endpoint('ssl.keystore.key="K"'), "ssl.keystore.certificate.chain is missing"),
        (of_endpoint('ssl.keystore.certificate.chain="C"'), "ssl.keystore.key is missing"),
        (
            of_endpoint('ssl.keystore.location="k" ssl.keystore.key="K" ssl.keystore.certificate.chain="C"'),
            "ssl.keystore.key takes the place of ssl.keystore.location",
        ),
        (
            of_endpoint('ssl.truststore.location="t" ssl.truststore.certificates="T"'),
            "ssl.truststore.certificates takes the place of ssl.truststore.location",
        ),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], line: str) -> None:
    """Each line has its fix."""
    with pytest.raises(ConfigurationError) as caught:
        ProducerConfig(SERVER, **settings)
    assert line in str(caught.value)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"security_protocol": "SASL-SSL"},
        {"sasl_mechanism": "SCRAM-SHA512"},
        {"sasl_password": b"bytes"},
        BY_TOKENS | {"sasl_token_provider": "a token"},
        BY_TOKENS
        | {
            "sasl_oauthbearer_client_credentials_client_id": "a",
            "sasl_oauthbearer_client_credentials_client_secret": CANARY,
            "sasl_oauthbearer_token_endpoint_url": "http://idp",
        },
        {"sasl_username": None, "sasl_password": None, "sasl_jaas_config": "org.apache.PlainLoginModule"},
    ],
)
def test_a_wrong_word_is_one_problem(change: dict[str, Any]) -> None:
    """The settings that depend on it are not to be removed."""
    given = PLAIN | {"ssl_truststore_location": "ca"} | change
    with pytest.raises(ConfigurationError) as caught:
        ProducerConfig(SERVER, **{name: value for name, value in given.items() if value is not None})
    assert list(change)[-1] in str(caught.value)
    assert "problems:" not in str(caught.value)


OF_LIBRDKAFKA = """
    enable.ssl.certificate.verification oauth_cb oauthbearer_token_refresh_cb sasl.mechanisms sasl.oauthbearer.client.id
    sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.extensions sasl.oauthbearer.grant.type
    sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.assertion.private.key.pem
    sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method ssl.ca.certificate.stores ssl.ca.location ssl.ca.pem
    ssl.certificate.location ssl.certificate.pem ssl.certificate.verify_cb ssl.crl.location ssl.curves.list
    ssl.engine.location ssl.key.location ssl.key.pem ssl.providers ssl.sigalgs.list
"""
OF_PYTHON = """
    sasl_oauth_token_provider sasl_plain_password sasl_plain_username ssl_cafile ssl_certfile ssl_check_hostname ssl_ciphers
    ssl_crlfile ssl_keyfile ssl_password
"""


@pytest.mark.parametrize("name", (OF_LIBRDKAFKA + OF_PYTHON).split())
def test_names_of_other_clients(name: str) -> None:
    """Those of librdkafka, aiokafka and kafka-python lead to a setting; the value, which may be secret, is not shown."""
    given: dict[str, Any] = {name.replace(".", "_"): CANARY}
    makes: tuple[Callable[[], object], ...] = (
        lambda: ProducerConfig(SERVER, security_protocol="SASL_SSL", **given),
        lambda: ProducerConfig.from_properties({"bootstrap.servers": SERVER, name: CANARY}),
    )
    for make in makes:
        with pytest.raises(ConfigurationError) as caught:
            make()
        (advice,) = re.findall(r": no such setting; did you mean (.+)\?", str(caught.value))
        assert advice.replace(".", "_") in SETTINGS
        assert CANARY not in str(caught.value)
        assert leaking_frames(caught.value) == []


def test_the_end_of_the_check_of_the_host_name() -> None:
    """librdkafka calls it 'none'."""
    with pytest.raises(ConfigurationError, match="use '' to turn the check off"):
        ProducerConfig(SERVER, security_protocol="SSL", ssl_endpoint_identification_algorithm="none")  # type: ignore[arg-type]


def test_scram_over_plaintext_needs_no_permission() -> None:
    """It does not send the password (S06)."""
    given = {**PLAIN, "sasl_mechanism": "SCRAM-SHA-256", "security_protocol": "SASL_PLAINTEXT"}
    assert ProducerConfig(SERVER, **given).sasl_username == "alice"


def test_a_client_properties_of_java(tmp_path: Path) -> None:
    """The JAAS string stands for user name and password; a changed copy derives them again."""
    path = tmp_path / "client.properties"
    path.write_text(
        f"""bootstrap.servers={SERVER}
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={MODULES}.scram.ScramLoginModule required username="alice" password="{CANARY}" tokenauth="true";
ssl.truststore.location=/etc/ca.jks
ssl.truststore.password={CANARY}
ssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_AES_256_GCM_SHA384
ssl.trustmanager.algorithm=PKIX
"""
    )
    config = ProducerConfig.from_properties(path)
    for each in (config, config.evolve(linger_ms=3)):
        assert (each.sasl_username, each.sasl_password, each.sasl_scram_token_auth) == (
            "alice",
            Secret(CANARY),
            True,
        )
        assert each.ssl_cipher_suites == ("ECDHE-RSA-AES256-GCM-SHA384",)
        assert CANARY not in repr(each)


def test_a_file_may_have_settings_of_another_protocol(caplog: pytest.LogCaptureFixture) -> None:
    """Java ignores them silently; one WARNING names them."""
    properties = {
        "bootstrap.servers": SERVER,
        "ssl.truststore.location": "/etc/ca",
        "sasl.mechanism": "PLAIN",
    }
    with caplog.at_level(logging.WARNING, "aioproducer"):
        config = ProducerConfig.from_properties(properties)
    assert config.ssl_truststore_location is None
    (record,) = caplog.records
    assert "ssl.truststore.location, sasl.mechanism" in record.getMessage()


def test_a_configuration_without_literal_secrets_is_pickled() -> None:
    """Files and variables are read where they are needed; a literal secret says so (S17)."""
    for source in (SecretFile("/run/secrets/kafka"), SecretEnv("KAFKA_PASSWORD")):
        config = ProducerConfig(SERVER, **{**PLAIN, "sasl_password": source})
        assert pickle.loads(pickle.dumps(config)) == config
    with pytest.raises(TypeError, match="SecretFile or SecretEnv"):
        pickle.dumps(ProducerConfig(SERVER, **PLAIN))


@pytest.mark.parametrize("make", [ProducerConfig, Producer])
@pytest.mark.parametrize(
    "settings",
    [
        {**PLAIN, "linger_ms": -1},
        {**PLAIN, "sasl_password": [CANARY]},
        {**PLAIN, "sasl_jaas_config": f'x required password="{CANARY}'},
        {"security_protocol": "SSL", "ssl_keystore_key": CANARY},
        {"security_protocol": "SSL", "ssl_keystore_certificate_chain": CANARY},
        {"ssl_key_password": CANARY},
    ],
)
def test_no_error_shows_a_secret(make: Any, settings: dict[str, Any]) -> None:
    """It is in no text, no argument, and no variable of a frame of the library (S17)."""
    with pytest.raises(ConfigurationError) as caught:
        make(SERVER, **settings)
    assert CANARY not in str(caught.value) + repr(caught.value.args) + repr(vars(caught.value))
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    ours = [frame.locals for frame in told.stack if "/aioproducer/" in frame.filename]
    assert ours
    assert CANARY not in str(ours)


def leaking_frames(error: BaseException) -> list[str]:
    """The frames of the library that have the canary in a variable."""
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    ours = [frame for frame in told.stack if "/aioproducer/" in frame.filename]
    assert ours
    return [f"{frame.filename}:{frame.name}" for frame in ours if CANARY in str(frame.locals)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ProducerConfig(SERVER, **{**PLAIN, "sasl_password": Secret("x")}).evolve(
            sasl_password=CANARY, linger_ms=-1
        ),
        lambda: ProducerConfig.from_properties("/no/such/file", sasl_password=CANARY),
        lambda: Producer.from_properties("/no/such/file", sasl_password=CANARY),
        lambda: Producer.from_properties({"sasl.password": CANARY, "linger.ms": "-1"}),
        lambda: ProducerConfig.from_properties({"sasl.password": CANARY, "linger.ms": "-1"}),
        lambda: Coordinators(SERVER, **PLAIN, retry_backoff_ms=-1),
        lambda: MockProducer(SERVER, **PLAIN, retry_backoff_ms=-1),
        lambda: Secret(CANARY.encode()),  # type: ignore[arg-type]
    ],
)
def test_no_other_constructor_shows_a_secret(make: Callable[[], object]) -> None:
    """Copies, files, overrides and mappings: no variable of a frame of the library has it (S17)."""
    with pytest.raises((ConfigurationError, TypeError)) as caught:
        make()
    assert leaking_frames(caught.value) == []


@pytest.mark.parametrize(
    "call",
    [
        lambda settings: fence(["t"], "localhost:1", **settings),
        lambda settings: list_transactions("t", "localhost:1", **settings),
        lambda settings: committed_offsets("g", [("t", 0)], "localhost:1", **settings),
        lambda settings: check_topics(["t"], "localhost:1", **settings),
        lambda settings: check_topics("t", "localhost:1", **settings),
        lambda settings: TransactionHandle("t", 1, 0, 2).commit("localhost:1", **settings),
        lambda settings: TransactionHandle("t", 1, 0, 2).abort("localhost:1", **settings),
    ],
)
async def test_no_call_shows_a_secret(call: Callable[[dict[str, Any]], Awaitable[object]]) -> None:
    """A call that fails for any reason, such as a broker that is down, keeps no setting in a frame (S17)."""
    with pytest.raises(KafkaError) as caught:
        await call({**PLAIN, "timeout": 0.01})
    assert leaking_frames(caught.value) == []


def test_a_configuration_with_a_secret_is_a_key() -> None:
    """Equal configurations have equal hashes, and no hash depends on a secret."""
    first, second = (ProducerConfig(SERVER, **PLAIN) for _ in range(2))
    assert {first: 1}[second] == 1
    assert hash(Secret("a")) == hash(Secret("b"))


PLAIN_MODULE = f"{MODULES}.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    "ignored",
    [
        {"security.protocol": "PLAINTEXT", "ssl.truststore.location": ""},
        {"security.protocol": "plaintext", "sasl.jaas.config": ""},
        {"sasl.mechanism": "AWS_MSK_IAM", "sasl.kerberos.service.name": "kafka"},
        {"ssl.engine.factory.class": "a.b.C", "ssl.enabled.protocols": "TLSv1.1", "ssl.cipher.suites": "x"},
        {"security.protocol": " ssl ", "sasl.kerberos.service.name": "kafka", "sasl.login.class": "a.b.C"},
        {**JAVA, "sasl.kerberos.service.name": "kafka", "sasl.kerberos.kinit.cmd": "/usr/bin/kinit"},
        {**JAVA, "sasl.oauthbearer.token.endpoint.url": "", "sasl.login.retry.backoff.ms": "100"},
        {**JAVA, "sasl.oauthbearer.assertion.file": "", "sasl.oauthbearer.assertion.algorithm": "x"},
    ],
)
def test_what_java_ignores_is_not_checked(ignored: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    """A file that works with Java works here: one WARNING names the properties, without their values."""
    with caplog.at_level(logging.WARNING, "aioproducer"):
        ProducerConfig.from_properties({"bootstrap.servers": SERVER, **ignored})
    (record,) = caplog.records
    assert "without effect" in record.getMessage()


def test_a_refused_property_that_is_in_effect() -> None:
    """It is still refused where Java reads it."""
    given = {"bootstrap.servers": SERVER, **JAVA, "sasl.login.class": "a.b.C", "ssl.provider": "x"}
    with pytest.raises(ConfigurationError, match=r"sasl\.login\.class") as caught:
        ProducerConfig.from_properties(given)
    assert "ssl.provider" in str(caught.value)


def test_the_ends_of_a_password_of_java() -> None:
    """Java trims spaces and control characters of ASCII; another space belongs to the password."""
    given = {**JAVA, "sasl.jaas.config": f"\x00 {PLAIN_MODULE}; ", "ssl.key.password": " \u00a0x\u2003\t"}
    with pytest.raises(ConfigurationError, match="sasl_username: is missing"):
        ProducerConfig.from_properties({"bootstrap.servers": SERVER, **given})
    config = ProducerConfig.from_properties({"bootstrap.servers": SERVER, **given, **JAVA})
    assert config.ssl_key_password == Secret("\u00a0x\u2003")


def test_a_copy_with_a_jaas_string() -> None:
    """It takes the place of user name and password, and each copy derives them from its own string."""
    first = ProducerConfig(SERVER, **PLAIN)
    changes: dict[str, Any] = {"sasl_username": None, "sasl_password": None}
    second = first.evolve(**changes, sasl_jaas_config=f'{PLAIN_MODULE} username="bob" password="b";')
    third = second.evolve(sasl_jaas_config=f'{PLAIN_MODULE} username="eve" password="c";')
    assert (second.sasl_username, third.sasl_username) == ("bob", "eve")
    assert third.sasl_password == Secret("c")
    fourth = third.evolve(sasl_jaas_config=None, sasl_username="dan", sasl_password="d")
    assert fourth.sasl_username == "dan"


def test_extensions_and_a_jaas_string() -> None:
    """One of the two has them: a setting is not replaced silently."""
    given: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_token_provider": lambda: "token",
        "sasl_jaas_config": f'{MODULES}.oauthbearer.OAuthBearerLoginModule required extension_a="1";',
    }
    assert ProducerConfig(SERVER, **given).sasl_extensions == (("a", "1"),)
    with pytest.raises(ConfigurationError, match="sasl_extensions: sasl_jaas_config stands for it"):
        ProducerConfig(SERVER, **given, sasl_extensions={"b": "2"})


class Provider:
    """An object that cannot be compared."""

    def __call__(self) -> str:
        return "token"

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


def test_a_provider_that_cannot_be_compared() -> None:
    """No setting of an object is compared with a default."""
    given: dict[str, Any] = {"sasl_mechanism": "OAUTHBEARER", "sasl_token_provider": Provider()}
    ProducerConfig(SERVER, security_protocol="SASL_SSL", **given)
    with pytest.raises(ConfigurationError, match="sasl_token_provider: has no effect"):
        ProducerConfig(SERVER, **given)


@pytest.mark.parametrize(
    "setting",
    [
        "ssl_keystore_location",
        "ssl_truststore_location",
        "ssl_keystore_certificate_chain",
        "ssl_truststore_certificates",
    ],
)
def test_a_private_key_in_a_setting_that_is_shown(setting: str) -> None:
    """It is refused, and no frame keeps it."""
    for end in ("\n", "\\n"):
        given: dict[str, Any] = {
            setting: f"-----BEGIN PRIVATE KEY-----{end}{CANARY}{end}-----END PRIVATE KEY-----"
        }
        with pytest.raises(
            ConfigurationError, match=r"PEM text has settings of its own|without a private key"
        ) as caught:
            ProducerConfig(SERVER, security_protocol="SSL", **given)
        assert CANARY not in str(caught.value)
        assert leaking_frames(caught.value) == []


IDP = "https://idp.example/oauth2/token"
OF_ENDPOINT: dict[str, Any] = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_oauthbearer_token_endpoint_url": IDP,
    "sasl_oauthbearer_client_credentials_client_id": "alice",
    "sasl_oauthbearer_client_credentials_client_secret": CANARY,
}


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"sasl_oauthbearer_token_endpoint_url": None}, "client_secret: requires sasl_oauthbearer_token_end"),
        ({"sasl_oauthbearer_client_credentials_client_id": None}, "client_id: is missing"),
        ({"sasl_oauthbearer_assertion_file": "a"}, "sasl_oauthbearer_assertion_file: takes the place"),
        ({"sasl_oauthbearer_jwt_retriever_class": "JwtBearerJwtRetriever"}, "assertion_file: is missing"),
        ({"sasl_oauthbearer_jwt_retriever_class": "FileJwtRetriever"}, "aioproducer.auth.token_file"),
        ({"sasl_oauthbearer_jwt_retriever_class": "a.b.C"}, "other classes cannot be loaded"),
        ({"sasl_oauthbearer_jwt_retriever_class": 5}, "other classes cannot be loaded"),
        ({"sasl_oauthbearer_assertion_private_key_file": "a"}, "private_key_file: takes the place of"),
        ({"sasl_oauthbearer_assertion_algorithm": "HS256"}, "must be one of 'RS256', 'ES256'"),
        ({"sasl_oauthbearer_assertion_claim_exp_seconds": 86_401}, "must be 0 to 86400"),
        (
            {"sasl_oauthbearer_assertion_claim_iss": "a"},
            "claim_iss: requires sasl_oauthbearer_assertion_private_key_file",
        ),
        ({"sasl_token_provider": lambda: "t"}, "sasl_token_provider: takes the place of"),
        ({"sasl_oauthbearer_allowed_urls": "https://idp.example/"}, "does not allow it"),
        ({"sasl_oauthbearer_allowed_urls": "idp.example"}, "begins with https://"),
        ({"sasl_oauthbearer_allowed_urls": ""}, "at least one URL"),
        ({"sasl_login_read_timeout_ms": 10_001}, "must be 1 to 10000"),
        ({"sasl_login_refresh_window_factor": float("nan")}, "must be 0.5 to 1"),
        ({"sasl_login_refresh_window_jitter": "0.1"}, "must be a number, not str"),
        (
            {"sasl_jaas_config": f'{MODULES}.OAuthBearerLoginModule required clientSecret="{CANARY}x";'},
            "client_secret: sasl_jaas_config stands for it",
        ),
        (
            {
                "sasl_jaas_config": f'{MODULES}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="a";'
            },
            "unsecuredLogin… makes tokens that are not signed",
        ),
    ],
)
def test_settings_of_a_token_endpoint_that_do_not_fit(settings: dict[str, Any], line: str) -> None:
    """Each line has its fix, and no secret."""
    with pytest.raises(ConfigurationError) as caught:
        ProducerConfig(SERVER, **OF_ENDPOINT | settings)
    assert line in str(caught.value)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://idp.example/token",
        "file:/etc/token",
        f"https://alice:{CANARY}@idp.example/token",
        f"https://idp.example/a b{CANARY}",
        f"https://idp.example/\r\nX: {CANARY}",
        f"https://{CANARY}:0/",
        f"https://{CANARY}:99999/",
        f"https://[{CANARY}/",
        f"https://a\\{CANARY}/",
        "https:///token",
        f"https://idp.example/#{CANARY}",
        f"https://{CANARY}é/",
    ],
)
def test_urls_that_get_no_secret(url: str) -> None:
    """Only https, without user name, spaces or other characters; no complaint shows the URL (S12)."""
    with pytest.raises(
        ConfigurationError, match="sasl_oauthbearer_token_endpoint_url: must be a URL"
    ) as caught:
        ProducerConfig(SERVER, **OF_ENDPOINT | {"sasl_oauthbearer_token_endpoint_url": url})
    assert CANARY not in str(caught.value)
    assert leaking_frames(caught.value) == []


@pytest.mark.parametrize(
    ("pattern", "url", "is_allowed"),
    [
        (IDP, IDP, True),
        (IDP, "https://IDP.example:443/oauth2/token", True),
        (IDP, IDP + "/x", False),
        (IDP, IDP + "?a=1", False),
        ("https://*.example/oauth2/*", IDP, True),
        ("https://*.example/*", "https://evil/x.example/a", False),
        ("https://*.example/*", "https://evil?.example/a", False),
        ("https://idp.example:8443/*", "https://idp.example/a", False),
        ("https://[::1]/t?a=[x]", "https://[::1]/t?a=[x]", True),
    ],
)
def test_the_urls_of_a_properties_file(pattern: str, url: str, is_allowed: bool) -> None:
    """A file decides on no endpoint that the application does not allow (S12); `*` does not leave the host name."""
    properties = {
        "bootstrap.servers": SERVER,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{MODULES}.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.jaas.config": f'{MODULES}.OAuthBearerLoginModule required clientId="a" clientSecret="{CANARY}";',
    }
    if is_allowed:
        config = ProducerConfig.from_properties(properties, sasl_oauthbearer_allowed_urls=[pattern])
        secret = config.evolve(linger_ms=1).sasl_oauthbearer_client_credentials_client_secret
        assert secret == Secret(CANARY)
        return
    with pytest.raises(ConfigurationError, match="sasl_oauthbearer_allowed_urls does not allow it"):
        ProducerConfig.from_properties(properties, sasl_oauthbearer_allowed_urls=[pattern])


def test_a_copy_keeps_what_its_jaas_string_does_not_have() -> None:
    """A JAAS string replaces only the settings that it has."""
    jaas = f"{MODULES}.OAuthBearerLoginModule required scope=s;"
    config = ProducerConfig(SERVER, **OF_ENDPOINT, sasl_jaas_config=jaas).evolve(linger_ms=1)
    assert config.sasl_oauthbearer_client_credentials_client_id == "alice"
    assert config.sasl_oauthbearer_scope == "s"


def test_a_signed_assertion_of_a_file(caplog: pytest.LogCaptureFixture) -> None:
    """With `assertion.file`, Java ignores the settings of assertions that it would sign, and a warning names them."""
    properties = {
        "bootstrap.servers": SERVER,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": IDP,
        "sasl.oauthbearer.assertion.file": "/run/assertion",
        "sasl.oauthbearer.assertion.private.key.file": "/run/key",
        "sasl.oauthbearer.assertion.algorithm": "none",
    }
    config = ProducerConfig.from_properties(properties, sasl_oauthbearer_allowed_urls=[IDP])
    assert config.sasl_oauthbearer_assertion_file == "/run/assertion"
    assert config.sasl_oauthbearer_assertion_private_key_file is None
    (record,) = caplog.records
    assert record.getMessage().endswith(
        ": sasl.oauthbearer.assertion.private.key.file, sasl.oauthbearer.assertion.algorithm"
    )

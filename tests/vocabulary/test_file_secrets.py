"""References to files in properties: which secrets are read again, and that all others stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aioproducer import (
    ConfigurationError,
    DirectoryProvider,
    EnvProvider,
    FileProvider,
    ProducerConfig,
    Secret,
)
from aioproducer.config import SETTINGS, FileReference, reading_files_again
from aioproducer.config.file_secrets import _READ_AGAIN
from aioproducer.secret import SecretCall

PLAIN = {"bootstrap.servers": "localhost:9093", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CANARY = "canary-7"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the same password in two kinds of files, and a variable with it."""
    (tmp_path / "password").write_text(f"{CANARY} \n")
    (tmp_path / "kafka.properties").write_text(f"password={CANARY}\n")
    monkeypatch.setenv("KAFKA_PASSWORD", CANARY)
    return tmp_path


def config_of(folder: Path, **properties: str) -> ProducerConfig:
    """The configuration of these properties; `_` in a name is a dot, and `{folder}` the folder."""
    given = PLAIN | {
        name.replace("_", "."): text.replace("{folder}", str(folder)) for name, text in properties.items()
    }
    providers: dict[str, Any] = {
        "file": FileProvider([folder]),
        "dir": DirectoryProvider([folder]),
        "env": EnvProvider("KAFKA_.*"),
    }
    return reading_files_again(ProducerConfig.from_properties(given, providers=providers), given, providers)


def now(source: object) -> str:
    """The secret of a source that is a file."""
    assert isinstance(source, SecretCall)
    assert isinstance(source.function, FileReference)
    return source.function()


@pytest.mark.parametrize(
    "reference", ["${file:{folder}/kafka.properties:password}", " ${dir:{folder}:password} "]
)
def test_a_property_is_read_again(folder: Path, reference: str) -> None:
    """Trimmed, as Java trims the value of a property; a copy with other settings reads it as well."""
    config = config_of(folder, sasl_username="alice", sasl_password=reference)
    assert now(config.sasl_password) == CANARY
    (folder / "password").write_text(" other\r\n")
    (folder / "kafka.properties").write_text("password=other")
    assert now(config.sasl_password) == now(config.evolve(linger_ms=7).sasl_password) == "other"
    assert CANARY not in repr(config)


def test_configurations_of_one_reference_are_equal(folder: Path) -> None:
    """So a worker keeps its producer, which has the new password at its next authentication."""
    given = {"sasl_username": "alice", "sasl_password": "${dir:{folder}:password}"}
    before = config_of(folder, **given)
    (folder / "password").write_text("other")
    after = config_of(folder, **given)
    assert (before, hash(before)) == (after, hash(after))
    assert before != config_of(
        folder, **given | {"sasl_password": "${file:{folder}/kafka.properties:password}"}
    )


def test_an_option_of_a_jaas_string_is_read_again(folder: Path) -> None:
    """Its spaces belong to it, as in Java. The settings that the string stands for take its place."""
    config = config_of(
        folder, sasl_jaas_config=f'{MODULE} username="alice" password="${{dir:{{folder}}:password}}";'
    )
    assert (config.sasl_username, config.sasl_jaas_config) == ("alice", None)
    assert now(config.sasl_password) == f"{CANARY} "
    assert {"sasl_username", "sasl_password"} < config.given


@pytest.mark.parametrize(
    "password",
    [
        "${env:KAFKA_PASSWORD}",
        CANARY,
        "x${dir:{folder}:password}",
        "${dir:{folder}:password}${env:KAFKA_PASSWORD}",
    ],
)
def test_other_texts_are_kept(folder: Path, password: str) -> None:
    """A variable does not change while a process runs, and a part of a text is no secret of its own."""
    config = config_of(folder, sasl_username="alice", sasl_password=password)
    assert isinstance(config.sasl_password, Secret)
    jaas = f'{MODULE} username="alice" password="{password}";'
    assert isinstance(config_of(folder, sasl_jaas_config=jaas).sasl_jaas_config, Secret)


def test_a_key_is_kept_with_its_certificates(folder: Path) -> None:
    """A new key from its file would not belong to the certificates, which are read once; and so its password is kept."""
    key = {
        "ssl_keystore_key": "${dir:{folder}:password}",
        "ssl_keystore_certificate_chain": "-----BEGIN CERTIFICATE-----",
    }
    config = config_of(
        folder,
        security_protocol="SSL",
        ssl_keystore_type="PEM",
        ssl_key_password="${dir:{folder}:password}",
        **key,
    )
    assert (config.ssl_keystore_key, config.ssl_key_password) == (Secret(CANARY), Secret(CANARY))


def test_the_password_of_a_key_in_a_file_is_read_again(folder: Path) -> None:
    """The file of the key is, too."""
    store = {"ssl_keystore_type": "PEM", "ssl_keystore_location": "/run/secrets/client.pem"}
    config = config_of(folder, security_protocol="SSL", ssl_key_password="${dir:{folder}:password}", **store)
    assert now(config.ssl_key_password) == CANARY


def test_a_password_is_kept_with_its_user(folder: Path) -> None:
    """Where both are references, a rotation may replace both: the former user does not have the new password."""
    user, password = "${file:{folder}/kafka.properties:password}", "${dir:{folder}:password}"
    config = config_of(folder, sasl_username=user, sasl_password=password)
    assert (config.sasl_username, config.sasl_password) == (CANARY, Secret(CANARY))
    jaas = f'{MODULE} username="{user}" password="{password}";'
    assert config_of(folder, sasl_jaas_config=jaas).sasl_jaas_config is not None


def test_each_secret_is_known() -> None:
    """A new setting that is secret is read again, or named here."""
    secrets = {row.name for row in SETTINGS.values() if row.is_secret}
    others = {"ssl_keystore_key", "sasl_jaas_config", "sasl_token_provider"}
    assert secrets == others | _READ_AGAIN.keys()


def test_a_jaas_string_of_which_more_is_a_reference(folder: Path) -> None:
    """It is read once: as it is written, it is no JAAS string."""
    (folder / "password").write_text(f'{MODULE} username="alice" password="{CANARY}";')
    config = config_of(folder, sasl_jaas_config="${dir:{folder}:password}")
    assert (config.sasl_username, config.sasl_password) == ("alice", Secret(CANARY))


def test_a_jaas_string_without_a_password_of_its_mechanism(folder: Path) -> None:
    """An option of that name is no password there."""
    jaas = 'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="a" clientSecret="b" password="${dir:{folder}:password}";'
    given = PLAIN | {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": jaas.replace("{folder}", str(folder)),
        "sasl.oauthbearer.token.endpoint.url": "https://localhost/token",
    }
    providers = {"dir": DirectoryProvider([folder])}
    config = ProducerConfig.from_properties(
        given, providers=providers, sasl_oauthbearer_allowed_urls=["https://localhost/token"]
    )
    assert reading_files_again(config, given, providers) is config


def test_ignored_properties_stay_ignored(folder: Path) -> None:
    """A password has no effect without SASL."""
    config = config_of(folder, security_protocol="SSL", sasl_password="${dir:{folder}:password}")
    assert config.sasl_password is None


def test_a_file_that_is_missing_at_the_start(folder: Path) -> None:
    """The configuration is refused, as without references."""
    with pytest.raises(ConfigurationError, match="is no file that can be read"):
        config_of(folder, sasl_username="alice", sasl_password="${dir:{folder}:none}")

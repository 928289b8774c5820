"""References in properties are replaced by the providers that the caller passes, within the places that these may read."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer import (
    ConfigProvider,
    ConfigurationError,
    DirectoryProvider,
    EnvProvider,
    FileProvider,
    Producer,
    ProducerConfig,
    Secret,
)
from aioproducer.config.providers import replaced

CANARY = "canary-7"
SERVER = {"bootstrap.servers": "localhost:9093"}
PLAIN = {**SERVER, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Words:
    """A provider that tells its arguments."""

    def get(self, path: str, key: str, /) -> str:
        return f"<{path}|{key}>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with secrets, beside a file that is none of them."""
    (tmp_path / "allowed" / "sub").mkdir(parents=True)
    (tmp_path / "allowed" / "kafka.properties").write_text(f"password={CANARY}\nname=alice\nbad=\\\\u12\n")
    (tmp_path / "allowed" / "sub" / "password").write_text(f"{CANARY}\n")
    (tmp_path / "other").write_text("password=other-8\n")
    (tmp_path / "allowed-not").mkdir()
    (tmp_path / "allowed-not" / "password").write_text("other-8")
    return tmp_path / "allowed"


def file_of(folder: Path, providers: dict[str, ConfigProvider], **properties: str) -> ProducerConfig:
    """The settings of a properties file; `__` in a name is a dot."""
    path = folder / "client.properties"
    given = {**PLAIN, **{name.replace("__", "."): value for name, value in properties.items()}}
    path.write_text("\n".join(f"{name}={value}" for name, value in given.items()))
    return ProducerConfig.from_properties(path, providers=providers)


def test_each_provider(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A property of a file, a file of a folder, and a variable; a setting that is secret has a Secret."""
    monkeypatch.setenv("KAFKA_PASSWORD", CANARY)
    providers: dict[str, ConfigProvider] = {
        "file": FileProvider([folder]),
        "dir": DirectoryProvider(str(folder)),
        "env": EnvProvider("KAFKA_.*"),
    }
    for reference in (
        f"${{file:{folder}/kafka.properties:password}}",
        f"${{dir:{folder}/sub:password}}",
        "${env:KAFKA_PASSWORD}",
        "${env::KAFKA_PASSWORD}",
    ):
        config = file_of(folder, providers, sasl__password=reference)
        assert config.sasl_password == Secret(CANARY)
        assert CANARY not in repr(config)
    producer = Producer.from_properties(
        {**PLAIN, "sasl.password": "${env:KAFKA_PASSWORD}", "client.id": "a-${env:KAFKA_PASSWORD}"},
        providers=providers,
    )
    assert CANARY not in repr(producer).replace(f"a-{CANARY}", "")


def test_a_reference_in_a_jaas_string(folder: Path) -> None:
    """A part of a value is replaced, as in Java; the settings that it stands for are secret."""
    jaas = f'{MODULE} username="${{file:{folder}/kafka.properties:name}}" password="${{file:{folder}/kafka.properties:password}}";'
    properties = {**PLAIN, "sasl.jaas.config": jaas}
    del properties["sasl.username"]
    config = ProducerConfig.from_properties(properties, providers={"file": FileProvider([folder])})
    assert (config.sasl_username, config.sasl_password) == ("alice", Secret(CANARY))
    assert CANARY not in repr(config)


def test_references_in_what_decides_on_the_others() -> None:
    """Security protocol, mechanism and compression are replaced before they are looked at."""
    properties = {
        **SERVER,
        "security.protocol": "${w:SSL}",
        "compression.type": "${w:gzip}",
        "compression.gzip.level": "3",
        "ssl.truststore.location": "/etc/ca.pem",
        "sasl.password": "${missing:x}",
    }

    class Key:
        def get(self, path: str, key: str, /) -> str:
            return key

    config = ProducerConfig.from_properties(properties, providers={"w": Key()})
    assert (config.security_protocol, config.compression_level) == ("SSL", 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${w:key}", "<|key>"),
        ("${w:path:key}", "<path|key>"),
        ("${w:path:key:more}", "<path|key:more>"),
        ("a${w:b}c${w:d:e}f", "a<|b>c<d|e>f"),
        ("${w}", "${w}"),
        ("$w:a", "$w:a"),
        ("${w:a", "${w:a"),
        ("$${w:a}", "$<|a>"),
    ],
)
def test_references_as_in_kafka(text: str, expected: str) -> None:
    """The form is that of Kafka's ConfigTransformer."""
    assert replaced(text, {"w": Words()}) == expected


def test_a_value_is_not_searched_again() -> None:
    """The value of a provider is data: a reference in it is not replaced."""

    class Reference:
        def get(self, path: str, key: str, /) -> str:
            return "${w:again}"

    assert replaced("${w:a}", {"w": Reference()}) == "${w:again}"


@given(st.text())
def test_random_texts(text: str) -> None:
    """Text without a reference stays as it is."""
    if ":" not in text:
        assert replaced(text, {}) == text


def problems(folder: Path, reference: str, providers: dict[str, ConfigProvider] | None = None) -> str:
    """The error of a reference. Neither it nor a frame of the library has a secret."""
    chosen = {"file": FileProvider([folder])} if providers is None else providers
    with pytest.raises(ConfigurationError) as caught:
        file_of(folder, {**chosen}, sasl__password=reference)
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    shown = str(caught.value) + str(
        [frame.locals for frame in told.stack if "/aioproducer/" in frame.filename]
    )
    assert [one for one in (CANARY, "other-8") if one in shown] == []
    return str(caught.value)


def test_without_a_provider(folder: Path) -> None:
    """The error names the argument: a file alone makes nothing be read (S15)."""
    reference = f"${{file:{folder}/kafka.properties:password}}"
    text = problems(folder, reference, {})
    assert "sasl.password: ${file:…} is replaced only by a provider that the application passes" in text
    with pytest.raises(ConfigurationError, match="only by a provider"):
        ProducerConfig.from_properties({**PLAIN, "sasl.password": reference})
    overridden = ProducerConfig.from_properties({**PLAIN, "sasl.password": reference}, sasl_password="x")
    assert overridden.sasl_password == Secret("x")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("{folder}/../other", "is not below a folder that the provider allows"),
        ("{folder}-not/password", "is not below a folder"),
        ("{folder}/link", "is not below a folder"),
        ("{folder}/linked/other", "is not below a folder"),
        ("/etc/passwd", "is not below a folder"),
        ("kafka.properties", "is not below a folder"),
        ("", "is not below a folder"),
        ("{folder}/none", "is no file that can be read"),
        ("{folder}/sub", "is no file that can be read"),
        ("{folder}/loop", "is no file that can be read"),
        ("{folder}/fifo", "is no file that can be read"),
        ("{folder}/odd", "is not UTF-8 text"),
        ("{folder}/broken", "requires four hexadecimal digits"),
        ("{folder}/inside", "has no property missing"),
    ],
)
def test_paths_that_are_refused(folder: Path, path: str, why: str) -> None:
    """Links are followed first; a file that is not below an allowed folder is not read (S15)."""
    (folder / "link").symlink_to(folder.parent / "other")
    (folder / "linked").symlink_to(folder.parent)
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "inside").symlink_to(folder / "kafka.properties")
    (folder / "odd").write_bytes(b"\xff")
    (folder / "broken").write_text(f"password={CANARY}\nbad=\\u12\n")
    (folder / "kafka.properties").write_text(f"password={CANARY}\n")

    os.mkfifo(folder / "fifo")
    place = path.format(folder=str(folder).replace("\\", "/"))
    assert why in problems(folder, f"${{file:{place}:missing}}")


def test_an_allowed_folder_that_is_a_link(folder: Path) -> None:
    """Kubernetes swaps links below a mounted secret; each of them leads to a place within it."""
    mounted = folder.parent / "mounted"
    mounted.symlink_to(folder)
    (folder / "current").symlink_to("sub")
    value = DirectoryProvider([mounted]).get(f"{mounted}/current", "password")
    assert value == CANARY


@pytest.mark.parametrize("key", ["../other", "..", "", ".", "sub/password", "/etc/passwd"])
def test_keys_that_are_no_names_of_files(folder: Path, key: str) -> None:
    """A key does not leave its folder."""
    text = problems(folder, f"${{dir:{folder}:{key}}}", {"dir": DirectoryProvider([folder])})
    assert "is no name of a file" in text


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("${env:HOME_OF_ALL}", "is not allowed by the provider"),
        ("${env:XKAFKA_A}", "is not allowed by the provider"),
        ("${env:KAFKA_NONE}", "the environment variable KAFKA_NONE is not set"),
        ("${env:a:KAFKA_A}", "an environment variable has no path"),
    ],
)
def test_variables_that_are_refused(
    folder: Path, reference: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole name has to match the pattern."""
    for name in ("HOME_OF_ALL", "XKAFKA_A", "KAFKA_A"):
        monkeypatch.setenv(name, CANARY)
    assert why in problems(folder, reference, {"env": EnvProvider("KAFKA_.*")})


class Failing:
    """A provider of the user that raises, with the secret in the text."""

    def get(self, path: str, key: str, /) -> str:
        raise ValueError(CANARY)


class Odd:
    """A provider of the user that gives no text."""

    def get(self, path: str, key: str, /) -> Any:
        return CANARY.encode()


@pytest.mark.parametrize(
    ("provider", "why"),
    [(Failing(), "the provider 'own' raised ValueError"), (Odd(), "gave bytes in place of str")],
)
def test_a_provider_of_the_user_that_fails(folder: Path, provider: ConfigProvider, why: str) -> None:
    """Its text and its value are not shown."""
    assert why in problems(folder, "${own:a}", {"own": provider})


def test_a_replaced_value_is_not_shown(folder: Path) -> None:
    """A setting that is no secret may name one by mistake: the complaint about the value leaves it out."""
    with pytest.raises(ConfigurationError) as caught:
        file_of(
            folder,
            {"file": FileProvider([folder])},
            sasl__password="x",
            linger__ms=f"${{file:{folder}/kafka.properties:password}}",
            acks=f"${{file:{folder}/kafka.properties:password}}",
        )
    assert "linger.ms: must be a whole number" in str(caught.value)
    assert CANARY not in str(caught.value)


def test_providers_that_a_java_client_names(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`config.providers` has no effect where each of its names is passed; otherwise it is refused."""
    properties = {
        **PLAIN,
        "sasl.password": f"${{file:{folder}/kafka.properties:password}}",
        "config.providers": "file, env",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(folder),
    }
    file = FileProvider([folder])
    with caplog.at_level(logging.DEBUG):
        config = ProducerConfig.from_properties(
            properties, providers={"file": file, "env": EnvProvider(".*")}
        )
    assert config.sasl_password == Secret(CANARY)
    assert CANARY not in caplog.text
    with pytest.raises(ConfigurationError, match=r"config\.providers: a file chooses no place"):
        ProducerConfig.from_properties(properties, providers={"file": file})


@pytest.mark.parametrize(
    "make",
    [
        lambda: FileProvider([]),
        lambda: FileProvider(["run/secrets"]),
        lambda: DirectoryProvider(""),
        lambda: EnvProvider("("),
        lambda: ProducerConfig.from_properties(SERVER, providers={"file": FileProvider}),  # type: ignore[dict-item]
        lambda: ProducerConfig.from_properties(SERVER, providers=[Words()]),  # type: ignore[arg-type]
        lambda: ProducerConfig.from_properties(SERVER, providers={"w": print}),  # type: ignore[dict-item]
    ],
)
def test_providers_that_cannot_be(make: Callable[[], object]) -> None:
    """A provider without an allowed place, a class in its place, and other objects are refused."""
    with pytest.raises(
        ConfigurationError, match=r"takes the absolute paths|of names to providers|takes a reg"
    ):
        make()

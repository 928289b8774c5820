"""The property files of known services are accepted as Java clients read them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from aioproducer import ProducerConfig, Secret
from aioproducer.config import jaas_options
from tests.examples.programs import EXAMPLES
from tests.kafka_jars import class_path, program

FOLDER = EXAMPLES / "security"
FILES = sorted(FOLDER.glob("*.properties"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_is_accepted(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each names its mechanism and its trust; no property is without effect."""
    config = ProducerConfig.from_properties(path)
    assert config.security_protocol in {"SSL", "SASL_SSL"}
    assert caplog.records == []


def test_event_hubs() -> None:
    """A JAAS string over several lines, with characters that begin a comment elsewhere."""
    config = ProducerConfig.from_properties(FOLDER / "event-hubs.properties")
    assert config.sasl_username == "$ConnectionString"
    assert isinstance(config.sasl_password, Secret)
    assert config.sasl_password.reveal().startswith("Endpoint=sb://NAMESPACE.servicebus.windows.net/;")


def test_msk() -> None:
    """The mechanism of the Java client stands for OAUTHBEARER."""
    config = ProducerConfig.from_properties(FOLDER / "msk-iam.properties")
    assert config.sasl_mechanism == "OAUTHBEARER"
    assert jaas_options(config.sasl_jaas_config) == {"awsProfileName": "PROFILE"}


@pytest.mark.kafka
def test_java_accepts_every_file() -> None:
    """Kafka's own client reads the same files, with the same protocols and login modules."""
    source = Path(__file__).with_name("PropertiesOfJava.java")
    command = [program("java"), "-cp", class_path(), str(source), *map(str, FILES)]
    read = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()
    for path, line in zip(FILES, read, strict=True):
        config = ProducerConfig.from_properties(path)
        protocol, _, module = line.partition(" ")
        assert protocol == config.security_protocol
        jaas = "" if config.sasl_jaas_config is None else config.sasl_jaas_config.reveal().split()[0]
        assert module == jaas

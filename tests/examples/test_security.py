"""The property files of known services are accepted as Java clients read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from aioproducer import ProducerConfig, Secret
from tests.examples.programs import EXAMPLES

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

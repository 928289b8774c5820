"""The committed modules are what the generators write from Kafka's clients jar."""

from __future__ import annotations

import pytest

from tests.kafka_jars import jar_folder
from tools import generate_error_codes, generate_messages


@pytest.mark.kafka
def test_messages_are_as_generated() -> None:
    """Every message module equals what the definitions in the jar give, and there is no other."""
    generated = generate_messages.generate(generate_error_codes.clients_jar(jar_folder()))
    committed = {path.name: path.read_text() for path in generate_messages.FOLDER.glob("*.py")}
    written_by_hand = committed.pop("declaration.py")
    assert written_by_hand
    assert committed == generated


@pytest.mark.kafka
def test_error_codes_are_as_generated() -> None:
    """The table of error codes equals what Kafka's own enum says."""
    assert generate_error_codes.TARGET.read_text() == generate_error_codes.generate(jar_folder())

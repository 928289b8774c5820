"""The settings of the audit's consumer, which may have a password."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from confluent_kafka import KafkaException

from aioproducer.spark import audit
from aioproducer.spark.auditing import ReaderSettings
from tests.reports import report

CANARY = "canary-7"
NO_SESSION: Any = None


def test_an_error_of_an_audit_keeps_no_password() -> None:
    """Spark can print the locals of all frames, on the driver and in tasks."""
    settings = {"sasl.password": CANARY, "no.such.property": "1"}
    with pytest.raises(KafkaException) as caught:
        audit(NO_SESSION, "localhost:1", ["orders"], settings=settings)
    assert "settings = <settings sasl.password, no.such.property" in report(caught.value)
    assert CANARY not in report(caught.value)


def test_settings_reach_tasks() -> None:
    """They are pickled as they are."""
    settings = ReaderSettings({"sasl.password": CANARY})
    received = pickle.loads(pickle.dumps(settings))
    assert (type(received), received) == (ReaderSettings, {"sasl.password": CANARY})

"""What the driver says before any task starts, without a Spark."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from aioproducer import ConfigurationError
from aioproducer.spark.interpreter import name_another_python
from aioproducer.spark.preflight import check_kafka
from aioproducer.testing import EmbeddedKafka
from tests.spark.attempts import TOPIC, options_for


async def test_a_missing_right_is_not_a_missing_topic(kafka: EmbeddedKafka) -> None:
    """Each is told with what to do about it, and without the other."""
    options = options_for(kafka)
    await asyncio.to_thread(check_kafka, options)
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Metadata", topic=TOPIC, times=None)
    with pytest.raises(ConfigurationError, match=r"may not write topic 'orders': grant it WRITE") as caught:
        await asyncio.to_thread(check_kafka, options)
    assert "create" not in str(caught.value)
    kafka.faults.heal()
    with pytest.raises(
        ConfigurationError, match=r"topic 'missing' does not exist: create it first"
    ) as caught:
        await asyncio.to_thread(check_kafka, options_for(kafka, topic="missing"))
    assert "grant" not in str(caught.value)


def test_another_python_is_named(tmp_path: Path) -> None:
    """By its path; the own one is none, under whatever name of its folder."""
    own = Path(sys.executable)
    assert name_another_python(str(own), sys.executable) is None
    other = tmp_path / "python3"
    other.symlink_to(own.resolve())
    assert name_another_python(str(other), sys.executable) == str(other)
    assert "not there" in (name_another_python(str(tmp_path / "gone"), sys.executable) or "")

"""The records that a MockProducer accepted."""

from __future__ import annotations

from typing import Any

from aioproducer.testing import MockProducer


def values(producer: MockProducer[Any, Any]) -> list[bytes | None]:
    """The accepted records, in order."""
    return [record.value for record in producer.history]

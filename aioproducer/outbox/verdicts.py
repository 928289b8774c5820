"""The meaning of a failure for a row: sent again, or never possible."""

from __future__ import annotations

from typing import Final

from aioproducer.errors import BrokerError, KafkaError, RecordError
from aioproducer.outcome import Outcome

__all__ = ["is_certain", "is_of_the_record"]

_REFUSED_RECORDS: Final = frozenset({"MESSAGE_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP"})


def is_of_the_record(error: KafkaError) -> bool:
    """Whether a record was not written for a reason in the record: sent again, it fails again."""
    if error.outcome is not Outcome.NOT_WRITTEN or error.retriable:
        return False
    return isinstance(error, RecordError) or (
        isinstance(error, BrokerError) and error.name in _REFUSED_RECORDS
    )


def is_certain(error: KafkaError) -> bool:
    """Whether the reason is in this very record. A broker may refuse a whole batch for one of its records."""
    return isinstance(error, RecordError)

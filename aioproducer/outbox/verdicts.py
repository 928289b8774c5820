"""The meaning of a failure for a row: sent again, sent with another time, or never possible."""

from __future__ import annotations

from typing import Final

from aioproducer.errors import BrokerError, KafkaError, MetadataTimeoutError, RecordError
from aioproducer.outcome import Outcome

__all__ = ["is_certain", "is_of_the_record", "is_of_the_time", "lacks_its_partition"]

_REFUSED_TIMESTAMP: Final = "INVALID_TIMESTAMP"
_REFUSED_RECORDS: Final = frozenset({"MESSAGE_TOO_LARGE", "INVALID_RECORD", _REFUSED_TIMESTAMP})


def is_of_the_record(error: KafkaError) -> bool:
    """Whether a record was not written for a reason in the record: sent again, it fails again."""
    return _is_final(error) and (
        isinstance(error, RecordError) or (isinstance(error, BrokerError) and error.name in _REFUSED_RECORDS)
    )


def is_of_the_time(error: KafkaError) -> bool:
    """Whether a broker has refused the timestamp of a record: with another one it may be written."""
    return _is_final(error) and isinstance(error, BrokerError) and error.name == _REFUSED_TIMESTAMP


def lacks_its_partition(error: KafkaError) -> bool:
    """Whether the brokers were asked for the partition of a record, and do not have it, though they have the topic."""
    return isinstance(error, MetadataTimeoutError) and error.confirmed


def is_certain(error: KafkaError) -> bool:
    """Whether the reason is in this very record. A broker may refuse a whole batch for one of its records."""
    return isinstance(error, RecordError)


def _is_final(error: KafkaError) -> bool:
    return error.outcome is Outcome.NOT_WRITTEN and not error.retriable

"""The errors that set a record aside: those whose reason is in the record."""

from __future__ import annotations

from typing import Final

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.errors import BrokerError, DeliveryError, KafkaError, RecordError
from aioproducer.outcome import Outcome
from aioproducer.serializers import is_outside

__all__ = ["OF_THE_RECORD", "is_of_the_record", "shares_a_refusal"]

# A broker's errors about the contents of a record.
OF_THE_RECORD: Final = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_RECORD}
)


def is_of_the_record(error: BaseException) -> bool:
    """True for an error that the same record would meet each time; never for one with an unknown outcome.

    An error that may not repeat itself is not of the record, such as that of a serializer whose registry is down, or that had no
    connection or memory. Nor is a serializer that fails for all records: with credentials or a schema that its registry refuses.
    """
    if not isinstance(error, KafkaError) or error.outcome is not Outcome.NOT_WRITTEN or error.retriable:
        return False
    if isinstance(error, BrokerError):
        return error.code in OF_THE_RECORD
    if isinstance(error, DeliveryError):
        # A record of `send_nowait` that was refused when its topic became known.
        return isinstance(error.cause, RecordError) and is_of_the_record(error.cause)
    return isinstance(error, RecordError) and not is_outside(error.cause)


def shares_a_refusal(error: BaseException | None) -> bool:
    """True for a record that was not written because the broker refused another one: of its batch, or before it in gapless mode."""
    if not isinstance(error, DeliveryError) or not error.retriable:
        return False
    refusal = error if isinstance(error, BrokerError) else error.cause
    return isinstance(refusal, BrokerError) and refusal.code in OF_THE_RECORD

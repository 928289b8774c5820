"""Records that can never be written, in the form in which they are set aside: with their errors in headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from aioproducer import KafkaError, RecordTooLargeError

if TYPE_CHECKING:
    from aioproducer.spark.shipping.columns import Parcel

__all__ = ["dead_letter"]

ERROR: Final = "aioproducer.error"
ERROR_CLASS: Final = "aioproducer.error.class"
TOPIC: Final = "aioproducer.topic"
# The size of a value that was too large and was cut off here.
VALUE_BYTES: Final = "aioproducer.value.bytes"
MOST_OF_A_VALUE: Final = 65_536
MOST_OF_AN_ERROR: Final = 2_048


@attrs.frozen
class DeadLetter:
    """A record for the topic of dead letters."""

    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes | None]]


def dead_letter(parcel: Parcel, at: int, error: KafkaError, limit: int) -> DeadLetter:
    """The row `at` of a parcel, which failed with this error; `limit`: the largest size of a record in bytes."""
    # Value, key, error and overhead have a quarter each.
    most = min(MOST_OF_A_VALUE, limit // 4)
    value, key = _bytes_at(parcel.values, at), _bytes_at(parcel.keys, at)
    headers: list[tuple[str, bytes | None]] = [
        (TOPIC, parcel.topic.encode()),
        (ERROR_CLASS, type(error).__name__.encode()),
        (ERROR, str(error).encode()[: min(MOST_OF_AN_ERROR, most)]),
    ]
    if isinstance(error, RecordTooLargeError) or (value is not None and len(value) > most):
        headers.append((VALUE_BYTES, str(len(value or b"")).encode()))
        value = None if value is None else value[:most]
        key = None if key is None else key[:most]
    else:
        headers = [*_valid(parcel.headers[at] if parcel.headers else None), *headers]
    return DeadLetter(value, key, headers)


def _bytes_at(column: Any, at: int) -> bytes | None:
    item = None if column is None else column[at].as_py()
    return item.encode() if isinstance(item, str) else item


def _valid(headers: list[tuple[Any, Any]] | None) -> list[tuple[str, bytes | None]]:
    """The headers may be the fault."""
    return [(name, value) for name, value in headers or () if isinstance(name, str)]

"""Rows that can never be written, in the form in which they are set aside: with their errors in headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from aioproducer import KafkaError
from aioproducer.outlets.letters import Letter, letter_of
from aioproducer.spark.shipping.columns import as_bytes

if TYPE_CHECKING:
    from aioproducer.spark.shipping.columns import Parcel

__all__ = ["dead_letter"]


@attrs.frozen(repr=False)
class Row:
    """A row that does not fit the format of its part: its repr is the row as JSON."""

    text: bytes | None

    def __repr__(self) -> str:
        return (self.text or b"null").decode(errors="backslashreplace")


def dead_letter(parcel: Parcel, at: int, error: KafkaError, limit: int) -> Letter:
    """The row `at` of a parcel, which failed with this error; `limit`: the largest size of a record in bytes."""
    return letter_of(
        parcel.topic,
        _part_at(parcel, "value", at),
        _part_at(parcel, "key", at),
        _headers_at(parcel, at),
        error,
        limit=limit,
        partition=parcel.partition[at] if parcel.partition else None,
        timestamp=_milliseconds(parcel, at),
    )


def _headers_at(parcel: Parcel, at: int) -> list[tuple[Any, Any]] | None:
    """The headers of a row; a key that is not UTF-8 is shown with escapes."""
    found = parcel.headers[at] if parcel.headers else None
    return None if found is None else [(_shown(key), value) for key, value in found]


def _shown(key: Any) -> Any:
    return key.encode(errors="surrogateescape").decode(errors="backslashreplace") if key else key


def _milliseconds(parcel: Parcel, at: int) -> int | None:
    """Since 1970; Python has no datetime for some moments."""
    if parcel.timestamps is None:
        return None
    microseconds: int | None = parcel.timestamps.slice(at, 1).cast(pa.int64())[0].as_py()
    return None if microseconds is None else microseconds // 1000


def _part_at(parcel: Parcel, part: str, at: int) -> Any:
    column = parcel.values if part == "value" else parcel.keys
    data: bytes | None = None if column is None else as_bytes(column.slice(at, 1))[0].as_py()
    return Row(data) if part in parcel.unfit.get(at, ()) else data

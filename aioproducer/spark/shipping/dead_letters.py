"""Rows that can never be written, in the form in which they are set aside: with their errors in headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aioproducer import KafkaError
from aioproducer.outlets.letters import Letter, letter_of

if TYPE_CHECKING:
    from aioproducer.spark.shipping.columns import Parcel

__all__ = ["dead_letter"]


def dead_letter(parcel: Parcel, at: int, error: KafkaError, limit: int) -> Letter:
    """The row `at` of a parcel, which failed with this error; `limit`: the largest size of a record in bytes."""
    return letter_of(
        parcel.topic,
        _bytes_at(parcel.values, at),
        _bytes_at(parcel.keys, at),
        parcel.headers[at] if parcel.headers else None,
        error,
        limit=limit,
        partition=parcel.partition[at] if parcel.partition else None,
        timestamp=None if parcel.timestamps is None else parcel.timestamps[at].as_py(),
    )


def _bytes_at(column: Any, at: int) -> bytes | None:
    item = None if column is None else column[at].as_py()
    return item.encode() if isinstance(item, str) else item

"""A row of an outbox, and the record that is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from aioproducer.errors import RecordError
from aioproducer.records import BytesLike, Headers, Record, Timestamp

__all__ = ["ID_HEADER", "Row", "record_of", "record_without_headers"]

ID_HEADER: Final = "aioproducer.outbox.id"
"""The header of each record with the id of its row, in decimal: a second copy of a record has the same."""


class Row(NamedTuple):
    """One row of an outbox. A store gives ids in rising order, and none of them twice."""

    id: int
    topic: str
    value: BytesLike | None = None
    key: BytesLike | None = None
    headers: Headers | None = None
    partition: int | None = None
    timestamp: Timestamp | None = None


def record_of(row: Row) -> Record[Any, Any]:
    """The record of a row: its own headers, and behind them its id. Raises `RecordError` if it has no valid headers."""
    return _record(row, _pairs(row))


def record_without_headers(row: Row) -> Record[Any, Any]:
    """The same for a row whose headers are not readable: only the header with its id."""
    return _record(row, ())


def _record(row: Row, headers: Iterable[tuple[str, BytesLike | None]]) -> Record[Any, Any]:
    return Record(
        row.topic,
        row.value,
        key=row.key,
        partition=row.partition,
        timestamp=row.timestamp,
        headers=(*headers, (ID_HEADER, b"%d" % row.id)),
    )


def _pairs(row: Row) -> Iterable[tuple[str, BytesLike | None]]:
    # A store may have found a text that it could not read.
    headers: Any = row.headers
    if not headers:
        return ()
    if isinstance(headers, Mapping):
        return headers.items()
    if isinstance(headers, (str, bytes)) or not isinstance(headers, Iterable):
        raise RecordError("the headers of the row are not readable", topic=row.topic)
    return headers

"""Columns of a bulk send, copied within its call: later changes by the caller change no record.

The user's objects are not trusted. A sequence is read once, into a list, and must have as many items as it says. Of an
Arrow array the compiled core copies and checks everything except the bytes of its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from aioproducer._core import Column
from aioproducer._net.accepting.arrow import bytes_column, is_arrow, listed_items, listed_times, times_column
from aioproducer._state.admission.checking import all_headers, checked_seconds, checked_topic
from aioproducer.errors import RecordError

# The items one by one, or the core's copy of an Arrow array.
Items: TypeAlias = "list[Any] | Column"


class BulkCall(NamedTuple):
    """The copied arguments of one `send_batch`: columns of `total` items each, or one object for all records."""

    topic: str
    total: int
    timeout: float | None
    values: Items
    keys: Items | None
    timestamps: Items | None
    # A list has one for each record.
    partition: Any
    headers: Any


def taken_over(
    topic: object,
    values: object,
    keys: object,
    partition: object,
    timestamps: object,
    headers: object,
    timeout: object,
    *,
    as_columns: bool,
) -> BulkCall:
    """Read the arguments of one `send_batch`; `RecordError` unless they are columns of one length.

    `as_columns`: the values of Arrow arrays are not read one by one.
    """
    name = checked_topic(topic)
    seconds = checked_seconds("timeout", timeout, name)
    own_values = _bytes("value", values, name, as_columns)
    total = _length(own_values)
    return BulkCall(
        name,
        total,
        seconds,
        own_values,
        None if keys is None else _of_length("keys", _bytes("key", keys, name, as_columns), total, name),
        None if timestamps is None else _of_length("timestamps", _times(timestamps, name), total, name),
        None if partition is None else _partition(partition, total, name),
        None if headers is None else _headers(headers, total, name),
    )


def _bytes(part: str, column: Any, topic: str, as_columns: bool) -> Items:
    if not is_arrow(column):
        return _listed(f"{part}s", column, topic)
    made = bytes_column(part, column, topic) if as_columns else None
    return listed_items(column) if made is None else made


def _times(column: Any, topic: str) -> Items:
    if not is_arrow(column):
        return _listed("timestamps", column, topic)
    made = times_column(column, topic)
    return listed_times(column, topic) if made is None else made


def _listed(name: str, column: Any, topic: str) -> list[Any]:
    """The items of a sequence, in a new list."""
    if type(column) in (list, tuple):
        return list(column)
    if not is_per_record(column):
        text = f"{name} must be a sequence or an Arrow array, not {type(column).__name__}"
        raise RecordError(text, topic=topic)
    if hasattr(column, "columns") and hasattr(column, "shape"):
        text = f"{name} is a table ({type(column).__name__}): pass one of its columns"
        raise RecordError(text, topic=topic)
    length = len(column)
    # One item more than expected: the sequence may be endless.
    items = list(islice(column, length + 1))
    if len(items) != length:
        found = f"{len(items)}" if len(items) < length else "more"
        text = f"{name} says that it has {length} items, and has {found} when it is read"
        raise RecordError(text, topic=topic)
    return items


def _length(items: Items) -> int:
    return items.length if isinstance(items, Column) else len(items)


def _of_length(name: str, items: Items, total: int, topic: str) -> Items:
    if _length(items) != total:
        raise RecordError(f"{_length(items)} {name} for {total} values", topic=topic)
    return items


def is_per_record(given: object) -> bool:
    """True for a sequence, or an array of any library; false for a single object."""
    return hasattr(given, "__len__") and not isinstance(given, (str, bytes, bytearray, Mapping))


def _partition(given: Any, total: int, topic: str) -> Any:
    """A list with one partition per record, or the one for all records."""
    if not is_per_record(given):
        return given
    items = listed_items(given) if is_arrow(given) else _listed("partition", given, topic)
    return _of_length("partition", items, total, topic)


def _headers(given: Any, total: int, topic: str) -> Any:
    """A list with one set of headers per record, or a tuple of pairs for all records, or any other object unchanged.

    One set is a mapping, or a sequence of pairs whose first is a str.
    """
    if isinstance(given, Mapping):
        return tuple(given.items())
    if isinstance(given, Iterator):
        # An iterator can be read only once, and all records need the headers. It may be endless.
        return all_headers(given, topic)
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        return given
    items = _listed("headers", given, topic)
    first = next((entry for entry in items if entry is not None), None)
    is_pair = isinstance(first, (tuple, list)) and len(first) == 2 and isinstance(first[0], str)
    return tuple(items) if is_pair or not items else _of_length("headers", items, total, topic)

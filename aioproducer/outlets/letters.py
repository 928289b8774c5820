"""The form of a dead letter: a record that was not written, and its error in headers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import islice
from typing import Any, Final

import attrs

from aioproducer._net.observing.failures import END_OF_THE_PROGRAM
from aioproducer.errors import KafkaError, RecordTooLargeError, text_of
from aioproducer.outcome import Outcome
from aioproducer.records import MOST_HEADERS

__all__ = ["Letter", "letter_of", "outcome_of", "shown"]

PREFIX: Final = "aioproducer."
MOST_OF_A_VALUE: Final = 65_536
MOST_OF_AN_ERROR: Final = 2_048
_MOST_CAUSES: Final = 20
# A class of the program may have a property of this name.
_CAUSE_OF: Final = BaseException.__dict__["__cause__"].__get__

PlainHeaders = list[tuple[str, bytes | None]]


@attrs.frozen
class Letter:
    """The key, value and headers of a dead letter."""

    key: bytes | None
    value: bytes | None
    headers: PlainHeaders


def letter_of(
    topic: object,
    value: Any,
    key: Any,
    headers: Any,
    error: BaseException,
    *,
    limit: int,
    partition: int | None = None,
    timestamp: object = None,
) -> Letter:
    """The dead letter of a record that was meant for `topic` and failed with `error`.

    `limit`: the largest size of a record in bytes; key, value and headers have a quarter of it each, at most 64 KiB.
    """
    most = min(MOST_OF_A_VALUE, limit // 4)
    is_too_large = isinstance(error, RecordTooLargeError)
    own_value, of_value = _part("value", value, most, is_too_large=is_too_large)
    own_key, of_key = _part("key", key, most)
    facts: PlainHeaders = [(f"{PREFIX}topic", _text(topic))]
    if partition is not None:
        facts.append((f"{PREFIX}partition", _text(partition)))
    if timestamp is not None:
        facts.append((f"{PREFIX}timestamp", _text(_milliseconds(timestamp))))
    facts += [
        (f"{PREFIX}error", _text(text_of(error), min(MOST_OF_AN_ERROR, most))),
        (f"{PREFIX}error.class", type(error).__name__.encode()),
        (f"{PREFIX}outcome", outcome_of(error).name.lower().encode()),
    ]
    return Letter(own_key, own_value, [*_fitting(headers, most), *facts, *of_value, *of_key])


def outcome_of(error: BaseException) -> Outcome:
    """The outcome of a record that failed with this error.

    An error of another library came before the send, unless its cause says otherwise: it may be raised from the error of a
    record, or by a time limit of the program, which has cancelled the wait for the record.
    """
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        # An object that lies about its class has no cause.
        if not issubclass(type(cause), BaseException):
            break
        if isinstance(cause, KafkaError):
            return cause.outcome
        if isinstance(cause, asyncio.CancelledError):
            return Outcome.UNKNOWN
        cause = _CAUSE_OF(cause)
    return Outcome.NOT_WRITTEN


def _part(
    name: str, data: Any, most: int, *, is_too_large: bool = False
) -> tuple[bytes | None, PlainHeaders]:
    """A key or value as bytes of at most this size, and the headers that tell how they were made."""
    if data is None:
        return None, []
    facts: PlainHeaders = []
    plain = _bytes(data)
    if plain is None:
        facts.append((f"{PREFIX}{name}.repr", type(data).__name__.encode()))
        plain = _encoded(shown(data, repr))
    if is_too_large or len(plain) > most:
        facts.append((f"{PREFIX}{name}.bytes", _text(len(plain))))
    return plain[:most], facts


def _bytes(data: Any) -> bytes | None:
    try:
        return bytes(memoryview(data))
    except END_OF_THE_PROGRAM:
        raise
    except BaseException:  # noqa: BLE001  # an object of the user's, which may have a `__buffer__`
        return None


def shown(thing: object, show: Callable[[object], str] = str) -> str:
    """The text of an object that may be the fault of its record."""
    try:
        return show(thing)
    except END_OF_THE_PROGRAM:
        raise
    except BaseException as error:  # noqa: BLE001  # an object of the user's
        return f"<{type(thing).__name__}: {show.__name__}() raised {type(error).__name__}>"


def _text(thing: object, most: int = MOST_OF_AN_ERROR) -> bytes:
    return _cut(_encoded(shown(thing)), most)


def _encoded(text: str) -> bytes:
    # A class of the user's may have another `encode`.
    return str.encode(text, errors="backslashreplace")


def _cut(found: bytes, most: int) -> bytes:
    if len(found) <= most:
        return found
    # Not in the middle of a character: readers decode it.
    return found[:most].decode(errors="ignore").encode()


def _milliseconds(timestamp: object) -> object:
    try:
        return int(timestamp.timestamp() * 1000) if isinstance(timestamp, datetime) else timestamp
    except END_OF_THE_PROGRAM:
        raise
    except BaseException:  # noqa: BLE001  # a moment that has no number, or an object of the user's
        return timestamp


def _fitting(headers: Any, most: int) -> PlainHeaders:
    """The headers of the record, as far as they are valid and fit: they may be its fault."""
    found: PlainHeaders = []
    for pair in _pairs(headers):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], str):
            continue
        name, value = pair
        plain = None if value is None else _bytes(value)
        size = len(name) * 4 + len(plain or b"")
        # Those behind one that is too large may be small, such as the id of an outbox.
        if size <= most and _is_text(name) and (plain is not None or value is None):
            most -= size
            found.append((name, plain))
    return found


def _pairs(headers: Any) -> list[Any]:
    """The items, up to one that cannot be read."""
    found: list[Any] = []
    try:
        items = headers.items() if hasattr(headers, "items") else headers
        for pair in islice(items, MOST_HEADERS) if isinstance(items, Iterable) else ():
            found.append(pair)  # noqa: PERF402  # those before an exception are kept
    except END_OF_THE_PROGRAM:
        raise
    except BaseException:  # noqa: BLE001, S110  # an object of the user's
        pass
    return found


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True

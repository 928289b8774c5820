"""The columns of a row: their checks before they are inserted, and headers as one text."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from aioproducer.config import topic_problem
from aioproducer.errors import ConfigurationError, RecordError, text_of
from aioproducer.records import MOST_HEADERS

__all__ = ["COLUMNS", "Columns", "checked_channel", "headers_of", "quoted_table"]

COLUMNS: Final = ("topic", "value", "key", "headers", "partition")
"""The columns that `add()` fills."""
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]{0,62}"
_TABLE: Final = re.compile(rf"{_NAME}(\.{_NAME})?")


class Columns(NamedTuple):
    """The checked contents of a new row."""

    topic: str
    value: bytes | None
    key: bytes | None
    headers: str | None
    partition: int | None

    @classmethod
    def of(cls, topic: Any, value: Any, key: Any, headers: Any, partition: Any) -> Columns:
        """Check the arguments of `add()`: a transaction shall not commit a row that no relay can send."""
        problem = topic_problem(topic)
        if problem is not None:
            raise RecordError(problem, topic=topic if isinstance(topic, str) else None)
        if partition is not None and (
            isinstance(partition, bool) or not isinstance(partition, int) or not 0 <= partition < 2**31
        ):
            raise RecordError(f"partition must be a number from 0, not {partition!r:.60}", topic=topic)
        return cls(
            topic,
            _bytes("value", value, topic),
            _bytes("key", key, topic),
            _text_of(headers, topic),
            partition,
        )


def _bytes(part: str, data: Any, topic: str) -> bytes | None:
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, (bytes, bytearray, memoryview)):
        try:
            return bytes(data)
        except (TypeError, ValueError) as error:
            raise RecordError(f"the {part} of a row has no bytes: {error}", topic=topic) from error
    raise RecordError(f"the {part} of a row must be bytes or None, not {type(data).__name__}", topic=topic)


# -- headers: [["name", "text"], ["name", null], ["name", {"base64": "…"}]]


def _text_of(headers: Any, topic: str) -> str | None:
    if headers is None:
        return None
    try:
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        # An iterator without an end would fill the memory.
        written = [_written(*pair) for pair in islice(pairs, MOST_HEADERS + 1)]
        if len(written) > MOST_HEADERS:
            raise ValueError(f"there are more than {MOST_HEADERS:,}")
        return json.dumps(written, ensure_ascii=False) if written else None
    except Exception as error:  # a mapping of the caller's may raise anything while it is read
        problem = f"headers must be pairs of a name and bytes or None: {text_of(error)}"
        raise RecordError(problem, topic=topic) from error


def _written(name: Any, value: Any) -> list[Any]:
    if not isinstance(name, str):
        raise TypeError(f"the name of a header is {type(name).__name__}, not str")
    name.encode()  # a lone surrogate has no bytes
    if value is None:
        return [name, None]
    data = bytes(memoryview(value))
    try:
        return [name, data.decode()]
    except UnicodeDecodeError:
        return [name, {"base64": base64.b64encode(data).decode()}]


def headers_of(text: Any) -> Any:
    """The headers of a row; a text that is not readable is returned as it is: its record is refused."""
    if text is None:
        return None
    try:
        # A connection may have a codec for columns of JSON.
        found = json.loads(text) if isinstance(text, (str, bytes)) else text
        pairs: Iterable[Any] = found.items() if isinstance(found, dict) else found
        return [_header(pair) for pair in pairs]
    except (TypeError, ValueError, LookupError, RecursionError):
        return text


def _header(pair: Any) -> tuple[str, bytes | None]:
    # A text of two characters has two parts as well.
    if isinstance(pair, str) or not isinstance(pair[0], str):
        raise TypeError("a header is a pair of a name and a value")
    name, value = pair
    return name, _read(value)


def _read(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return base64.b64decode(value["base64"], validate=True)
    if isinstance(value, str):
        return value.encode()
    raise TypeError("the value of a header is a text, null or an object with base64")


# -- tables


def quoted_table(name: Any) -> str:
    """The name of a table as SQL has it, with its schema if it has one."""
    if not isinstance(name, str) or not _TABLE.fullmatch(name):
        raise ConfigurationError(
            f"table={name!r:.80} is not the name of a table: letters, digits and _, with a schema and a dot if wanted"
        )
    return ".".join(f'"{part}"' for part in name.split("."))


def checked_channel(channel: Any) -> str | None:
    """The name of a channel for notifications."""
    if channel is not None and not (isinstance(channel, str) and re.fullmatch(_NAME, channel)):
        raise ConfigurationError(f"channel={channel!r:.80} is not a name: letters, digits and _")
    return None if channel is None else str(channel)

"""JSON lines: one object for each record."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from typing import Any

import attrs

from aioproducer import Record
from aioproducer.cli.produce.reading_lines import Defaults, Headers, LineError, RawRecord
from aioproducer.config import topic_problem
from aioproducer.errors import printable

FIELDS = ("topic", "key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp")


@attrs.frozen
class JsonLines:
    """Reads `{"key": "alice", "value": "2 apples"}`; missing fields have the values of the command line."""

    defaults: Defaults

    def record(self, line: bytes) -> RawRecord | None:
        """The record of the line; None for a blank line."""
        if not line.strip():
            return None
        fields = _object(line)
        partition = fields.get("partition")
        return Record(
            self._topic(fields.get("topic")),
            _bytes(fields, "value"),
            key=_bytes(fields, "key"),
            partition=self.defaults.partition if partition is None else _whole("partition", partition),
            timestamp=_timestamp(fields.get("timestamp")),
            headers=[*self.defaults.headers, *_headers(fields.get("headers"))] or None,
        )

    def _topic(self, name: Any) -> str:
        if name is None:
            name = self.defaults.topic
        if name is None:
            raise LineError('has no "topic", and --topic is not set')
        problem = topic_problem(name)
        if problem:
            raise LineError(f'"topic": {problem}')
        return str(name)


def _object(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line, object_pairs_hook=_without_repeats, parse_constant=_no_number)
    except (UnicodeDecodeError, RecursionError) as error:
        raise LineError(f"is not JSON: {type(error).__name__}") from None
    except json.JSONDecodeError as error:
        raise LineError(f"is not JSON: {error.msg} at character {error.pos + 1}") from None
    except LineError:
        raise
    except ValueError:
        # Python refuses to read them, because the time is quadratic in their length.
        raise LineError("has a number of more than 4,300 digits") from None
    if not isinstance(fields, dict):
        raise LineError('is not a JSON object such as {"key": "alice", "value": "2 apples"}')
    for name in fields:
        if name not in FIELDS:
            raise LineError(f"has the unknown field {_shown(name)}; the fields are {', '.join(FIELDS)}")
    return fields


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise LineError(f"has {_shown(repeated)} twice")
    return found


def _no_number(word: str) -> None:
    raise LineError(f"has {word}, which is not JSON")


def _bytes(fields: dict[str, Any], name: str) -> bytes | None:
    """A key or value: a string in UTF-8, null as null, any other value as JSON."""
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        if name in fields:
            raise LineError(f'has both "{name}" and "{name}_base64"')
        return _from_base64(f"{name}_base64", encoded)
    found = fields.get(name)
    if found is None:
        return None
    return _text(name, found) if isinstance(found, str) else _json(name, found)


def _json(name: str, found: Any) -> bytes:
    try:
        return json.dumps(found, separators=(",", ":"), allow_nan=False).encode()
    except RecursionError:
        raise LineError(f'"{name}" is nested too deeply') from None
    except ValueError:
        raise LineError(f'"{name}" has a number that is too large') from None


def _text(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise LineError(f'"{name}" has an incomplete surrogate pair') from None


def _from_base64(name: str, encoded: Any) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise LineError(f'"{name}" is not Base64') from None


def _headers(found: Any) -> Headers:
    """The headers: an object, or a list of pairs, which may repeat a name."""
    if found is None:
        return []
    pairs = list(found.items()) if isinstance(found, dict) else found
    if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        raise LineError('"headers" is neither {"name": "value"} nor [["name", "value"]]')
    return [(name, None if value is None else _text("headers", value)) for name, value in pairs]


def _is_pair(pair: Any) -> bool:
    return (
        isinstance(pair, list | tuple)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and isinstance(pair[1], str | None)
    )


def _whole(name: str, number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise LineError(f'"{name}" is not a whole number of 0 or more')
    return number


def _timestamp(found: Any) -> int | datetime | None:
    if found is None:
        return None
    if not isinstance(found, str):
        return _whole("timestamp", found)
    try:
        moment = datetime.fromisoformat(found)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise LineError('"timestamp" is neither milliseconds nor a time such as "2026-01-31T12:00:00Z"')
    return moment


def _shown(name: str) -> str:
    return f'"{printable(name, 40)}"'

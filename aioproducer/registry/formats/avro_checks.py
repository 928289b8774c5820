"""The values that fastavro would write as others, without an error: None as False, 3.7 as 3, text as an array of characters.

Only the types that have such values are looked at. What a union has in it is checked by fastavro, except for the one
type of `["null", type]` that it takes too easily.
"""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import attrs

__all__ = ["Check", "check_of"]

Check: TypeAlias = Callable[[Any], None]
"""Raises for a value that would be read as another one."""

_MOST: Final = (1 << 31) - 1
# The first number that is rounded to the infinity of 32 bits.
_TOO_LARGE: Final = 3.4028235677973366e38
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_NO_ITEMS: Final = (str, bytes, bytearray, memoryview, Mapping)
_RECORDS: Final = {"record", "error"}
_MIDNIGHT: Final = datetime.time()


class _Any:
    """Stands for no class of values: each is looked at."""


@attrs.frozen
class _Rule:
    """The check of a type: values of the class `fits` need none."""

    check: Check
    fits: type = _Any


def check_of(parsed: Any, named: Mapping[str, Any]) -> Check | None:
    """The check of values of a parsed schema; None if there is nothing to check. `named`: all named types."""
    rule = _Rules(named).of(parsed)
    if rule is None:
        return None
    return rule.check if rule.fits is _Any else _single(rule)


class _Rules:
    """The rules of types by the named types of a schema."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._made: dict[str, _Rule | None] = {}

    def of(self, schema: Any) -> _Rule | None:
        """The rule of a type."""
        if isinstance(schema, list):
            return self._union(schema)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in self._named:
            return self._record(kind)
        if kind in _RECORDS:
            return self._record(schema["name"])
        if kind in {"array", "map"}:
            is_array = kind == "array"
            return self._items(schema["items" if is_array else "values"], is_array=is_array)
        # Of an unknown one, a reader takes no notice, whatever it is.
        logical = str(schema.get("logicalType")) if isinstance(schema, dict) else ""
        return _LOGICAL.get((kind, logical)) or _PRIMITIVE.get(kind)

    def _record(self, name: str) -> _Rule | None:
        schema = self._named[name]
        if name in self._made or schema["type"] not in _RECORDS:
            return self._made.get(name)
        fields: list[tuple[str, _Rule]] = []
        usual: list[tuple[str, type]] = []
        others: list[tuple[str, _Rule]] = []
        # A record may have itself in it.
        self._made[name] = _Rule(_record(fields, usual, others))
        for field in schema["fields"]:
            rule = self.of(field["type"])
            if rule is None:
                continue
            fields.append((field["name"], rule))
            if rule.fits is _Any:
                others.append((field["name"], rule))
            else:
                usual.append((field["name"], rule.fits))
        if not fields:
            self._made[name] = None
        return self._made[name]

    def _items(self, items: Any, *, is_array: bool) -> _Rule:
        rule = self.of(items)
        return _Rule(_array(rule) if is_array else _map(rule))

    def _union(self, schema: list[Any]) -> _Rule | None:
        others = [each for each in schema if each != "null"]
        if len(others) == 1:
            rule = self.of(others[0])
            return None if rule is None else _Rule(_optional(rule), type(None))
        logical = [each.get("logicalType") for each in others if isinstance(each, dict)]
        # fastavro takes the first one, and a datetime is a date as well.
        is_date_first = next((each for each in logical if each in ("date", *_MOMENTS)), None) == "date"
        return _Rule(_wide_union(self._by_name(schema), _date_of_union if is_date_first else None))

    def _by_name(self, schema: list[Any]) -> dict[str, _Rule | None]:
        """The rules of the types of a union, by the names that a tuple of a name and a value may have."""
        named = (
            (each, each["name"] if isinstance(each, dict) and "name" in each else each) for each in schema
        )
        return {name: self.of(each) for each, name in named if isinstance(name, str)}


def _single(rule: _Rule) -> Check:
    def check(data: Any) -> None:
        if type(data) is not rule.fits:
            rule.check(data)

    return check


def _record(
    fields: list[tuple[str, _Rule]], usual: list[tuple[str, type]], others: list[tuple[str, _Rule]]
) -> Check:
    """The check of a record: of the fields whose values have usual classes, and of others. `fields` has both."""

    def check(data: Any) -> None:
        # Most objects are such mappings: this is all that they need.
        if type(data) is dict:
            try:
                for name, fits in usual:
                    if type(data[name]) is not fits:
                        break
                else:
                    if others:
                        _check_fields(data, others)
                    return
            except KeyError:
                pass
        _check_fields(data, fields)

    return check


def _check_fields(data: Any, fields: list[tuple[str, _Rule]]) -> None:
    get = data.get
    for name, rule in fields:
        value = get(name)
        if type(value) is rule.fits or (value is None and name not in data):
            # Fits, or its default is written, or it is missed.
            continue
        try:
            rule.check(value)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{error} on field {name}") from None


def _array(rule: _Rule | None) -> Check:
    def check(data: Any) -> None:
        if isinstance(data, _NO_ITEMS):
            raise TypeError(f"a list is required, not {type(data).__name__}")
        # An iterator can be read once.
        if rule is not None and not isinstance(data, Iterator):
            fits, inner = rule.fits, rule.check
            for each in data:
                if type(each) is not fits:
                    inner(each)

    return check


def _map(rule: _Rule | None) -> Check:
    def check(data: Any) -> None:
        if not isinstance(data, Mapping):
            raise TypeError(f"a mapping is required, not {type(data).__name__}")
        if rule is not None:
            fits, inner = rule.fits, rule.check
            for each in data.values():
                if type(each) is not fits:
                    inner(each)

    return check


def _optional(rule: _Rule) -> Check:
    def check(data: Any) -> None:
        if isinstance(data, tuple) and len(data) == 2:
            # The name of the type, and the value.
            data = data[1]
        if data is not None and type(data) is not rule.fits:
            rule.check(data)

    return check


def _wide_union(by_name: dict[str, _Rule | None], others: Check | None) -> Check:
    """The check of a union of several types. fastavro looks at a value without a name, and at none behind a name."""

    def check(data: Any) -> None:
        if not (isinstance(data, tuple) and len(data) == 2):
            if others is not None:
                others(data)
            return
        rule = by_name.get(data[0]) if isinstance(data[0], str) else None
        if rule is not None and type(data[1]) is not rule.fits:
            rule.check(data[1])

    return check


# ----- types without others in them


def _null(data: Any) -> None:
    raise TypeError(f"null is required, not {type(data).__name__}")


def _boolean(data: Any) -> None:
    if not bool(data) == data:
        raise TypeError(f"a boolean is required, not {type(data).__name__}")


def _long(data: Any) -> None:
    if type(data) is int:
        return
    try:
        is_whole = bool(int(data) == data)
    except (TypeError, ValueError):
        is_whole = False
    if not is_whole:
        raise TypeError("an integer is required")


def _int(data: Any) -> None:
    _long(data)
    if not -_MOST - 1 <= data <= _MOST:
        raise ValueError("an int has 32 bits, and this number needs more; the type long has 64")


def _float(data: Any) -> None:
    number = float(data)
    if abs(number) >= _TOO_LARGE and number not in (float("inf"), float("-inf")):
        raise ValueError("a float has 32 bits, and this number is too large; the type double has 64")


def _bytes(data: Any) -> None:
    try:
        view = memoryview(data)
    except TypeError:
        # A decimal, or nothing that fastavro takes.
        return
    if not view.c_contiguous:
        raise ValueError("the bytes of a view are not in one piece: give bytes(view)")


def _date(data: Any) -> None:
    if isinstance(data, datetime.datetime):
        if data.time() != _MIDNIGHT:
            raise ValueError("a date is required, and this datetime has a time")
    elif not isinstance(data, datetime.date | str):
        _int(data)


def _date_of_union(data: Any) -> None:
    if isinstance(data, datetime.datetime):
        _date(data)


def _time_of(number: Check) -> Check:
    def check(data: Any) -> None:
        if not isinstance(data, datetime.time):
            number(data)
        elif data.tzinfo is not None:
            raise ValueError("a time without a zone is required: the zone would be lost")

    return check


def _moment(data: Any) -> None:
    if not isinstance(data, datetime.datetime):
        _long(data)


def _uuid(data: Any) -> None:
    if isinstance(data, str) and _UUID.fullmatch(data) is None:
        uuid.UUID(data)


_PRIMITIVE: Final = {
    "null": _Rule(_null, type(None)),
    "boolean": _Rule(_boolean, bool),
    "int": _Rule(_int),
    "long": _Rule(_long, int),
    "float": _Rule(_float),
    "bytes": _Rule(_bytes, bytes),
    "fixed": _Rule(_bytes, bytes),
}
_MOMENTS: Final = ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")
_LOGICAL: Final[dict[tuple[str, str], _Rule]] = {
    ("int", "date"): _Rule(_date, datetime.date),
    ("int", "time-millis"): _Rule(_time_of(_int)),
    ("long", "time-micros"): _Rule(_time_of(_long)),
    ("string", "uuid"): _Rule(_uuid, uuid.UUID),
    **{("long", each): _Rule(_moment, datetime.datetime) for each in _MOMENTS},
}

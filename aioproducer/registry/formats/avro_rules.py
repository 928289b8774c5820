"""The checks of types that have no others in them: the values that fastavro would write as others, without an error."""

from __future__ import annotations

import datetime
import decimal
import re
import uuid
from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias

import attrs
from fastavro.write import LOGICAL_WRITERS

from aioproducer.errors import ConfigurationError
from aioproducer.registry.formats.by_class import ByClass
from aioproducer.registry.formats.floats import (
    is_decimal_of_double,
    is_never_infinite,
    is_rounded_to_infinity,
    is_text,
)
from aioproducer.registry.formats.to_dict import Plain
from aioproducer.serializers import is_outside

__all__ = ["PRIMITIVES", "Check", "Rule", "is_custom", "made_by_custom", "rule_of", "rule_of_custom"]

Check: TypeAlias = Callable[[Any], None]
"""Raises for a value that would be read as another one."""

PRIMITIVES: Final = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}

_MOST: Final = (1 << 31) - 1
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_MIDNIGHT: Final = datetime.time()


@attrs.frozen
class Rule:
    """The check of a type: values of the classes `fits` need none."""

    check: Check
    fits: Collection[type] = ()

    @property
    def looks_at_all(self) -> bool:
        """True if the values of each class are looked at."""
        return not self.fits


def is_custom(kind: str, schema: Any) -> bool:
    """Whether the program has given fastavro a function for this logical type, which takes values of other classes."""
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    is_known = logical == "decimal" or (kind, str(logical)) in _LOGICAL
    return not is_known and f"{kind}-{logical}" in LOGICAL_WRITERS


def rule_of_custom(kind: str, schema: Any, rule: Rule | None, plain: Plain) -> Rule:
    """The rule of a logical type of the program: its function gets nothing that can be read once.

    What it makes is looked at as a value of the type below it, if that has a rule.
    """
    readable = _readable(plain)
    if rule is None:
        # The function is called by fastavro alone.
        return readable

    def check(data: Any) -> None:
        if type(data) not in readable.fits:
            readable.check(data)
        made = made_by_custom(schema, data)
        if type(made) not in rule.fits:
            rule.check(made)

    return Rule(check)


def made_by_custom(schema: Any, data: Any) -> Any:
    """The result of the function of a logical type of the program. An error of it may have the value in its text."""
    try:
        return LOGICAL_WRITERS[f"{schema['type']}-{schema['logicalType']}"](data, schema)
    except Exception as error:  # of the program
        if is_outside(error):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
    raise kind(
        f"this {type(data).__name__} does not fit the type {schema['type']} with {schema['logicalType']}"
    )


def _readable(plain: Plain) -> Rule:
    """The rule of values that a function may read more than once."""
    return Rule(plain.check_readable, plain.whole)


def rule_of(kind: str, schema: Any) -> Rule | None:
    """The rule of a type without others in it; None if fastavro refuses all that it would write as another value."""
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    if logical == "decimal" and kind in {"bytes", "fixed"}:
        return Rule(_decimal_of(schema))
    # Of an unknown one, a reader takes no notice, whatever it is.
    return _LOGICAL.get((kind, str(logical))) or _PRIMITIVE.get(kind)


def _null(data: Any) -> None:
    raise TypeError(f"null is required, not {type(data).__name__}")


def _boolean(data: Any) -> None:
    try:
        is_equal = bool(bool(data) == data)
    except Exception as error:  # of the class of the value
        if is_outside(error):
            raise
        is_equal = False
    if not is_equal:
        raise TypeError(f"a boolean is required, not {type(data).__name__}")


def _long(data: Any) -> None:
    if type(data) is int:
        return
    try:
        is_whole = bool(int(data) == data)
    except Exception as error:  # of the class of the value; an OverflowError of infinity
        if is_outside(error):
            raise
        is_whole = False
    if not is_whole:
        raise TypeError(f"an integer is required, not {type(data).__name__}")


def _int(data: Any) -> None:
    _long(data)
    if not -_MOST - 1 <= data <= _MOST:
        raise ValueError("an int has 32 bits, and this number needs more; the type long has 64")


def _double(data: Any) -> None:
    if is_decimal_of_double(data):
        return
    if is_never_infinite(type(data)):
        # As fast as Python's own from now on.
        _DOUBLES.remember(type(data), True)
    elif _is_too_large(data, "double", 64):
        raise ValueError("a double has 64 bits, and this number is too large")


def _float(data: Any) -> None:
    if _is_too_large(data, "float", 32):
        raise ValueError("a float has 32 bits, and this number is too large; the type double has 64")


def _is_too_large(data: Any, kind: str, bits: int) -> bool:
    if is_text(data):
        # fastavro reads numbers out of them.
        raise TypeError(f"this {type(data).__name__} does not fit the type {kind}")
    return is_rounded_to_infinity(data, bits)


def _bytes(data: Any) -> None:
    try:
        view = memoryview(data)
    except TypeError:
        # Nothing that fastavro takes.
        return
    if not view.c_contiguous:
        raise ValueError("the bytes of a view are not in one piece: give bytes(view)")


def _date(data: Any) -> None:
    if isinstance(data, datetime.datetime):
        if data.time() != _MIDNIGHT:
            raise ValueError("a date is required, and this datetime has a time")
    elif not isinstance(data, datetime.date | str):
        _int(data)


def _time_of(day: int) -> Check:
    """The check of a time; `day` is the number of the first time that no day has."""

    def check(data: Any) -> None:
        if isinstance(data, datetime.time):
            if data.tzinfo is not None:
                raise ValueError("a time without a zone is required: the zone would be lost")
            return
        _long(data)
        if not 0 <= data < day:
            raise ValueError(f"a time is a number from 0 to {day - 1}: readers refuse another one")

    return check


def _moment(data: Any) -> None:
    if not isinstance(data, datetime.datetime):
        _long(data)


def _local_moment(data: Any) -> None:
    if isinstance(data, datetime.datetime) and data.tzinfo is not None:
        raise ValueError("a datetime without a zone is required: the zone would be lost")
    _moment(data)


def _decimal_of(schema: Any) -> Check:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if precision is None:
        raise ConfigurationError("schema: a decimal has no precision")
    is_fixed = schema["type"] == "fixed"

    def check(data: Any) -> None:
        if not isinstance(data, decimal.Decimal):
            _bytes(data)
        elif not data.is_finite():
            raise ValueError("a decimal is a finite number")
        elif data and data.adjusted() >= precision - scale:
            raise ValueError(
                f"a decimal of precision {precision} and scale {scale} has {precision - scale} digits before the point"
            )
        elif is_fixed and not data and data.is_signed():
            # fastavro writes another number.
            raise ValueError("a fixed decimal has no -0: give 0")

    return check


def _uuid(data: Any) -> None:
    if not isinstance(data, str) or _UUID.fullmatch(data) is not None:
        return
    try:
        uuid.UUID(data)
    except ValueError:
        # It has the text, if that is as long as a UUID.
        pass
    else:
        return
    raise ValueError("this text is no UUID")


# An int that is too large is refused by fastavro.
_DOUBLES: Final = ByClass({float: True, int: True})
_PRIMITIVE: Final = {
    "null": Rule(_null, {type(None)}),
    "boolean": Rule(_boolean, {bool}),
    "int": Rule(_int),
    "long": Rule(_long, {int}),
    "float": Rule(_float),
    "double": Rule(_double, _DOUBLES),
    "bytes": Rule(_bytes, {bytes}),
    "fixed": Rule(_bytes, {bytes}),
}
_LOGICAL: Final[dict[tuple[str, str], Rule]] = {
    ("int", "date"): Rule(_date, {datetime.date}),
    ("int", "time-millis"): Rule(_time_of(86_400_000)),
    ("long", "time-micros"): Rule(_time_of(86_400_000_000)),
    ("string", "uuid"): Rule(_uuid, {uuid.UUID}),
    ("long", "timestamp-millis"): Rule(_moment, {datetime.datetime}),
    ("long", "timestamp-micros"): Rule(_moment, {datetime.datetime}),
    ("long", "local-timestamp-millis"): Rule(_local_moment),
    ("long", "local-timestamp-micros"): Rule(_local_moment),
}

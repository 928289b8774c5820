"""Rows as Protobuf: the descriptor of a message, applied to the types of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from aioproducer._formats.forms import ITSELF, NOWHERE, Form, UnfitError
from aioproducer._formats.types import is_bytes, is_list, is_text, places_of, varint

__all__ = ["protobuf_form"]

VARINT, FIXED_64, SIZED, FIXED_32 = 0, 1, 2, 5
TIMESTAMP: Final = "google.protobuf.Timestamp"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
INT_32: Final = (("low", -(1 << 31)), ("high", (1 << 31) - 1))


def _is_integer_of(bits: int) -> Callable[[Any], bool]:
    return lambda kind: pa.types.is_signed_integer(kind) and kind.bit_width <= bits


_Scalar = tuple[Callable[[Any], bool], str, str, tuple[tuple[str, int], ...]]
# By the names of types in a .proto file: the types that fit, the kind of node, the cast before it, and limits.
SCALARS: Final[dict[str, _Scalar]] = {
    "int32": (pa.types.is_signed_integer, "varint", "", INT_32),
    "int64": (pa.types.is_signed_integer, "varint", "", ()),
    "uint32": (pa.types.is_signed_integer, "varint", "", (("low", 0), ("high", (1 << 32) - 1))),
    "uint64": (pa.types.is_signed_integer, "varint", "", (("low", 0),)),
    "sint32": (pa.types.is_signed_integer, "zigzag", "", INT_32),
    "sint64": (pa.types.is_signed_integer, "zigzag", "", ()),
    "sfixed32": (_is_integer_of(32), "number", "int32", ()),
    "sfixed64": (_is_integer_of(64), "number", "int64", ()),
    "float": (pa.types.is_float32, "number", "", ()),
    "double": (lambda kind: pa.types.is_float64(kind) or pa.types.is_float32(kind), "number", "double", ()),
    "bool": (pa.types.is_boolean, "boolean", "", ()),
    "string": (is_text, "sized string", "", ()),
    "bytes": (is_bytes, "sized bytes", "", ()),
    "enum": (pa.types.is_signed_integer, "varint", "", INT_32),
}
NAMES: Final = (
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message", "bytes",
    "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip


def protobuf_form(kind: Any, descriptor: Any, path: str = "") -> Form:
    """The form of rows of an Arrow type as a message; UnfitError with a line for each field and column that do not fit."""
    return _message(kind, descriptor, path, "record", b"", None)


def _message(kind: Any, descriptor: Any, path: str, node: str, before: bytes, absent: bytes | None) -> Form:
    name = descriptor.full_name
    if name == TIMESTAMP and pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz is not None:
        return _moment(path, node, before, absent)
    if name in WRAPPERS and not pa.types.is_struct(kind):
        field = _field(kind, descriptor.fields[0], path)
        return Form(node, path, before, absent, (field,), (ITSELF,))
    if not pa.types.is_struct(kind):
        raise UnfitError(f"{path or 'the column'}: a column of {kind} does not fit the message {name}")
    places = places_of([field.name for field in descriptor.fields], [column.name for column in kind])
    found: dict[int, Any] = dict(zip(places, descriptor.fields, strict=True))
    fields, problems = [], []
    for at, column in enumerate(kind):
        within = f"{path}.{column.name}" if path else column.name
        if at not in found:
            problems.append(f"{within}: the message {name} has no such field")
            continue
        try:
            fields.append(_field(column.type, found[at], within))
        except UnfitError as error:
            problems.append(str(error))
    problems += [
        f"{field.name}: a column is missing, and the message {name} requires it"
        for at, field in zip(places, descriptor.fields, strict=True)
        if at == NOWHERE and _is_required(field)
    ]
    if problems:
        raise UnfitError("; ".join(problems))
    return Form(node, path, before, absent, tuple(fields), tuple(range(len(fields))))


def _moment(path: str, node: str, before: bytes, absent: bytes | None) -> Form:
    limits = (("low", -62_135_596_800), ("high", 253_402_300_799))
    seconds = Form("varint", path, _tag(1, VARINT), b"", more=(("divisor", 1_000_000), *limits))
    nanos = Form("varint", path, _tag(2, VARINT), b"", more=(("modulus", 1_000_000), ("factor", 1000)))
    return Form(node, path, before, absent, (seconds, nanos), (ITSELF, ITSELF))


def _field(kind: Any, field: Any, path: str) -> Form:
    """A field of a message with its tag; a null leaves the field out, unless it is required."""
    absent = None if _is_required(field) else b""
    if not field.is_repeated:
        return _single(kind, field, path, _tag(field.number, _wire(field)), absent)
    if pa.types.is_map(kind) and _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        entry = (
            _single(kind.key_type, key, path, _tag(1, _wire(key)), None),
            _single(kind.item_type, value, path, _tag(2, _wire(value)), None),
        )
        return Form("entries", path, b"", b"", entry, more=(("mark", _tag(field.number, SIZED)),))
    if _is_map(field) or not is_list(kind):
        raise UnfitError(f"{path}: a column of {kind} does not fit the repeated field of the message")
    if field.is_packed:
        item = _single(kind.value_type, field, path, b"", None)
        return Form("packed", path, _tag(field.number, SIZED), b"", (item,))
    item = _single(kind.value_type, field, path, _tag(field.number, _wire(field)), None)
    return Form("repeated", path, b"", b"", (item,))


def _single(kind: Any, field: Any, path: str, before: bytes, absent: bytes | None) -> Form:
    name = NAMES[field.type]
    if name == "message":
        return _message(kind, field.message_type, path, "message", before, absent)
    if name == "enum" and is_text(kind):
        values = field.enum_type.values
        symbols, numbers = tuple(each.name for each in values), tuple(each.number for each in values)
        return Form("varint", path, before, absent, symbols=symbols, numbers=numbers, more=INT_32)
    fits, node, cast, more = SCALARS.get(name, (_nothing, "", "", ()))
    if not fits(kind):
        raise UnfitError(f"{path}: a column of {kind} does not fit {name} of the message")
    return Form(node, path, before, absent, cast=cast, more=more)


def _nothing(_kind: Any) -> bool:
    return False


def _wire(field: Any) -> int:
    name = NAMES[field.type]
    if name in {"double", "fixed64", "sfixed64"}:
        return FIXED_64
    if name in {"float", "fixed32", "sfixed32"}:
        return FIXED_32
    return SIZED if name in {"string", "bytes", "message"} else VARINT


def _is_required(field: Any) -> bool:
    return bool(field.is_required)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)

"""Our messages as kio's entities and back, field by field, for kio to judge our bytes."""

from __future__ import annotations

import datetime as dt
import importlib
import io
from collections.abc import Hashable
from dataclasses import Field, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from aioproducer._wire.messages.declaration import AnyMessage, Message
from aioproducer._wire.programs import version_range
from tools.generate_messages import snake

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MILLISECOND = dt.timedelta(milliseconds=1)
LATEST = 4_000_000_000_000  # in the year 2096
NO_ID = UUID(int=0)


def kio_type(message: Message, version: int) -> type[Any]:
    """kio's class for a message in a version."""
    name = message.type.__name__
    kind = "request" if name.endswith("Request") else "response"
    api = snake(name.removesuffix("Request").removesuffix("Response"))
    module = importlib.import_module(f"kio.schema.{api}.v{version}.{kind}")
    found: type[Any] = getattr(module, name)
    return found


def kio_bytes(entity: object) -> bytes:
    """The bytes that kio writes for a message."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)  # type: ignore[type-var]
    return buffer.getvalue()


def kio_entity(entity_type: type[Any], data: bytes) -> object:
    """The message that kio reads from all of the bytes."""
    entity, size = entity_reader(entity_type)(data, 0)
    if size != len(data):
        raise ValueError(f"kio read {size} of {len(data)} bytes")
    return entity


class Bridge:
    """The fields of one message in one version, ours beside kio's, which keep the order of Kafka's definition."""

    def __init__(self, message: Message, version: int) -> None:
        self.message = message
        self.version = version
        self.entity_type = kio_type(message, version)

    def tamed(self, ours: AnyMessage) -> AnyMessage:
        """`ours` with values that kio has types for: it knows dates, durations and error codes, not just numbers."""
        return self._tamed(ours, self.entity_type)

    def to_kio(self, ours: AnyMessage) -> object:
        """kio's entity that says the same."""
        return self._to_kio(ours, self.entity_type)

    def from_kio(self, entity: object) -> AnyMessage:
        """Our message that says the same."""
        return self._from_kio(entity, self.message.type)

    def _pairs(self, struct: type[AnyMessage], entity_type: Any) -> list[tuple[str, Field[Any]]]:
        return _pairs(self.message.structs[struct], entity_type, self.version)

    def _tamed(self, ours: AnyMessage, entity_type: type[Any]) -> AnyMessage:
        changes = {
            name: _each(getattr(ours, name), lambda value, field=field: self._tame(value, field))
            for name, field in self._pairs(type(ours), entity_type)
        }
        return ours._replace(**changes)  # type: ignore[attr-defined,no-any-return]

    def _tame(self, value: Any, field: Field[Any]) -> Any:
        nested = _entity_type(field)
        if nested is not None:
            return self._tamed(value, nested)
        match field.metadata["kafka_type"]:
            case "error_code":
                return _CODES[value % len(_CODES)]
            case "timedelta_i64":
                return value % LATEST
            case "datetime_i64":
                return -1 if _is_optional(field) and value < 0 else value % LATEST
        return value

    def _to_kio(self, ours: AnyMessage, entity_type: type[Any]) -> object:
        values = {
            field.name: _each(
                getattr(ours, name), lambda value, field=field: self._kio_value(value, field), tuple
            )
            for name, field in self._pairs(type(ours), entity_type)
        }
        return entity_type(**values)

    def _kio_value(self, value: Any, field: Field[Any]) -> Any:
        nested = _entity_type(field)
        if nested is not None:
            return self._to_kio(value, nested)
        match field.metadata["kafka_type"]:
            case "error_code":
                return ErrorCode(value)
            case "timedelta_i32" | "timedelta_i64":
                return value * MILLISECOND
            case "datetime_i64":
                return None if value == -1 and _is_optional(field) else EPOCH + value * MILLISECOND
            case "uuid":
                return UUID(bytes=value) if any(value) or not _is_optional(field) else None
        return value

    def _from_kio(self, entity: object, struct: type[AnyMessage]) -> AnyMessage:
        values = {
            name: _each(getattr(entity, field.name), lambda value, field=field: self._our_value(value, field))
            for name, field in self._pairs(struct, type(entity))
        }
        for name, field in self._pairs(struct, type(entity)):
            if values[name] is None and field.metadata.get("kafka_type") in ("uuid", "datetime_i64"):
                values[name] = bytes(16) if field.metadata["kafka_type"] == "uuid" else -1
        defaults = struct._field_defaults  # type: ignore[attr-defined]
        absent: dict[str, object] = {
            name: [] for name, default in defaults.items() if default == () and name not in values
        }
        return struct(**absent, **values)

    def _our_value(self, value: Any, field: Field[Any]) -> Any:
        nested = _entity_type(field)
        if nested is not None:
            return self._from_kio(value, self._struct(nested.__name__))
        match field.metadata["kafka_type"]:
            case "error_code":
                return value.value
            case "timedelta_i32" | "timedelta_i64":
                return round(value / MILLISECOND)
            case "datetime_i64":
                return round((value - EPOCH) / MILLISECOND)
            case "uuid":
                return value.bytes if value else bytes(16)
        return value

    def _struct(self, name: str) -> type[AnyMessage]:
        # A response has its own name before that of a struct which its request has as well.
        names = (f"{self.message.type.__name__}{name}", name)
        return next(struct for one in names for struct in self.message.structs if struct.__name__ == one)


_CODES = sorted(code.value for code in ErrorCode)


def _each(value: Any, change: Any, container: type[Any] = list) -> Any:
    """`change` applied to a value or to all elements of an array; nulls stay."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return container(change(element) for element in value)
    return change(value)


@cache
def _pairs(declared: tuple[Any, ...], entity_type: Any, version: int) -> list[tuple[str, Field[Any]]]:
    names = [field.name for field in declared if version in version_range(field.versions)]
    theirs = fields(entity_type)
    for ours, field in zip(names, theirs, strict=True):
        # kio leaves the unit out of a name whose type is a date or a duration.
        if ours not in (field.name, f"{field.name}_ms"):
            raise ValueError(f"{entity_type} version {version}: our {ours} stands where kio has {field.name}")
    return list(zip(names, theirs, strict=True))


@cache
def _members(field_type: Hashable) -> tuple[Any, ...]:
    if isinstance(field_type, UnionType) or get_origin(field_type) is tuple:
        return tuple(member for part in get_args(field_type) for member in _members(part))
    return (field_type,)


def _entity_type(field: Field[Any]) -> type[Any] | None:
    kind: Any = field.type
    return next(
        (member for member in _members(kind) if isinstance(member, type) and is_dataclass(member)), None
    )


def _is_optional(field: Field[Any]) -> bool:
    kind: Any = field.type
    return type(None) in _members(kind)

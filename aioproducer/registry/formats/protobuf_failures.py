"""The reason for which Protobuf makes no message of some fields: the field, the class of its value and the type.

Protobuf's own errors show the value in some versions, and the field in others. Errors go to logs and dead letters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.message_factory import GetMessageClass

from aioproducer.registry.formats.unknown_fields import shown_name
from aioproducer.serializers import is_outside

__all__ = ["STRUCT", "made_of"]

STRUCT: Final = "google.protobuf.Struct"
"""The message whose mapping has any names."""


def made_of(message_type: Any, fields: Mapping[Any, Any]) -> Any:
    """The message with these fields; a TypeError or ValueError names the field that does not fit."""
    try:
        return message_type(**fields)
    except Exception as error:  # of Protobuf, about a value of the user
        if is_outside(error):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
    name = message_type.DESCRIPTOR.full_name
    raise kind(_reason(message_type, fields) or f"the fields do not fit the message {name}")


def _reason(message_type: Any, fields: Mapping[Any, Any]) -> str | None:
    """The reason for the first field of which no message is made."""
    descriptor = message_type.DESCRIPTOR
    for name, value in fields.items():
        if not isinstance(name, str):
            return f"the name of a field is a text, not {type(name).__name__}"
        field = descriptor.fields_by_name.get(name)
        if field is None:
            # A name may be data of a user, such as an address. One that could be in a schema is most likely misspelled.
            return f"the message {descriptor.full_name} has no field {shown_name(name)}"
        reason = _of_field(message_type, field, value)
        if reason is not None:
            return f"{reason} on field {name}"
    return None


def _of_field(message_type: Any, field: Any, value: Any) -> str | None:
    reason = _of_one(message_type, field, value)
    if reason is None or field.message_type is None:
        return reason if reason is None else _of_items(message_type, field, value) or reason
    if field.message_type.GetOptions().map_entry:
        inner = (
            _of_entries(GetMessageClass(field.message_type), value) if isinstance(value, Mapping) else None
        )
    elif _is_message(field, value):
        inner = _reason(GetMessageClass(field.message_type), value)
    else:
        inner = _of_items(message_type, field, value)
    return inner or reason


def _of_one(message_type: Any, field: Any, value: Any) -> str | None:
    """The reason for a value, whatever its parts are."""
    try:
        message_type(**{field.name: value})
    except UnicodeError:
        return "this text or these bytes are not UTF-8"
    except Exception:  # noqa: BLE001  # of Protobuf, about a value of the user
        return f"this {type(value).__name__} does not fit the type {_name(field)}"
    return None


def _of_items(message_type: Any, field: Any, values: Any) -> str | None:
    """The reason for the first item of a repeated field."""
    if not isinstance(values, list | tuple):
        return None
    for each in values:
        if _of_one(message_type, field, [each]) is not None:
            inner = _reason(GetMessageClass(field.message_type), each) if _is_message(field, each) else None
            return inner or f"this {type(each).__name__} does not fit the type {_name(field)}"
    return None


def _of_entries(entry: Any, entries: Mapping[Any, Any]) -> str | None:
    """The reason for the first entry of a map."""
    parts = entry.DESCRIPTOR.fields_by_name
    for key, value in entries.items():
        reason = _of_one(entry, parts["key"], key)
        if reason is not None:
            return f"{reason} of a key"
        reason = _of_field(entry, parts["value"], value)
        if reason is not None:
            return reason
    return None


def _is_message(field: Any, value: Any) -> bool:
    kind = field.message_type
    return kind is not None and kind.full_name != STRUCT and isinstance(value, Mapping)


def _name(field: Any) -> str:
    described = field.message_type or field.enum_type
    if described is not None:
        return str(described.full_name)
    return str(FieldDescriptorProto.Type.Name(field.type)).removeprefix("TYPE_").lower()

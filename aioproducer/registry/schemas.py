"""Schemas as a registry has them: their texts, their references to others, and their ids."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs

from aioproducer.errors import ConfigurationError, printable

__all__ = [
    "Reference",
    "RegisteredSchema",
    "Schema",
    "SchemaId",
    "SchemaType",
    "advice_about",
    "check_number",
    "given_schema",
]

SchemaType: TypeAlias = Literal["AVRO", "JSON", "PROTOBUF"]
_TYPES: Final = get_args(SchemaType)


def _check_type(_schema: object, _attribute: object, kind: Any) -> None:
    if not isinstance(kind, str) or kind not in _TYPES:
        raise ConfigurationError(
            f"the type of a schema is one of {', '.join(_TYPES)}, not {printable(kind, 60)!r}"
        )


def _check_text(_schema: object, attribute: Any, text: Any) -> None:
    if not isinstance(text, str):
        raise ConfigurationError(
            f"{attribute.name} of a schema or reference is a string, not {type(text).__name__}"
        )


def _check_version(_reference: object, _attribute: object, version: Any) -> None:
    check_number("the version of a reference", version)


def check_number(name: str, number: object) -> None:
    """Refuse anything but a whole number, by name."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise ConfigurationError(f"{name} must be a number, not {type(number).__name__}")


@attrs.frozen
class Reference:
    """A schema that another one imports: `name` is its name there, `subject` and `version` are its place in the registry."""

    name: str = attrs.field(validator=_check_text)
    subject: str = attrs.field(validator=_check_text)
    version: int = attrs.field(validator=_check_version)


def _references(given: Sequence[Reference]) -> tuple[Reference, ...]:
    # Not any iterable: one without an end would fill the memory.
    if not isinstance(given, (list, tuple)):
        raise ConfigurationError(f"references of a schema are a tuple or list, not {type(given).__name__}")
    return tuple(given)


def _check_references(_schema: object, _attribute: object, references: tuple[Any, ...]) -> None:
    wrong = next((each for each in references if not isinstance(each, Reference)), None)
    if wrong is not None:
        raise ConfigurationError(f"references of a schema are of Reference, not {type(wrong).__name__}")


@attrs.frozen
class Schema:
    """The text of a schema, its type, and the schemas that it imports."""

    text: str = attrs.field(validator=_check_text)
    type: SchemaType = attrs.field(default="AVRO", validator=_check_type)
    references: tuple[Reference, ...] = attrs.field(
        default=(), converter=_references, validator=_check_references
    )


@attrs.frozen
class SchemaId:
    """The number of a schema in its registry, and its guid and the version in its subject where the registry tells them."""

    id: int
    guid: uuid.UUID | None = None
    version: int | None = None


@attrs.frozen
class RegisteredSchema:
    """A version of a subject."""

    subject: str
    version: int
    id: int
    schema: Schema
    guid: uuid.UUID | None = None

    @property
    def schema_id(self) -> SchemaId:
        """Its id, guid and version."""
        return SchemaId(self.id, self.guid, self.version)


def given_schema(schema: Any, kind: SchemaType, text_of: Callable[[Any], str | None]) -> Schema | None:
    """The schema that a serializer was given: a `Schema`, or what `text_of` finds a text in (None: in nothing else)."""
    if schema is None:
        return None
    if isinstance(schema, Schema):
        if schema.type != kind:
            raise ConfigurationError(
                f"schema: is {schema.type}, and {kind.capitalize()}Serializer needs {kind}"
            )
        return schema
    try:
        text = text_of(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"schema: has no text as JSON: {error}") from None
    if text is None:
        advice = "; give the text of the file: read_text()" if isinstance(schema, os.PathLike) else ""
        raise ConfigurationError(
            f"schema: must be a string, a mapping or a Schema, not {type(schema).__name__}{advice}"
        )
    return Schema(text, kind)


def advice_about(text: str) -> str:
    """Advice about a text that is no JSON: the name of a file is a usual mistake."""
    name = text.strip()
    return (
        "; give the text of a schema, not the name of its file" if name.endswith((".avsc", ".json")) else ""
    )

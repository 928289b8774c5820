"""Avro schemas, parsed once: fastavro's form of them, and what an encoder has to know about them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import attrs
from fastavro import parse_schema
from fastavro.schema import SchemaParseException, UnknownType

from aioproducer._formats.avro_defaults import as_data
from aioproducer.errors import ConfigurationError
from aioproducer.registry.formats.avro_rules import PRIMITIVES
from aioproducer.registry.schemas import advice_about

__all__ = ["AvroSchema", "parsed"]

_RECORDS: Final = {"record", "error"}
# What fastavro raises for an object that does not fit, with objects of other libraries inside as well.
_UNFIT: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@attrs.frozen
class AvroSchema:
    """A parsed schema."""

    root: Any
    """In the form that fastavro writes with, without another look at its names."""
    named: Mapping[str, Any]
    """All named types by their full names."""
    fields: Mapping[str, Mapping[str, Any]] = attrs.field(init=False)
    """The types of the fields of all records, by the full names of these."""

    @fields.default
    def _fields_of_records(self) -> dict[str, dict[str, Any]]:
        return {
            name: {each["name"]: each["type"] for each in schema["fields"]}
            for name, schema in self.named.items()
            if schema["type"] in _RECORDS
        }

    @property
    def name(self) -> str | None:
        """The full name of a named type, the name of a primitive one; None for a union."""
        if isinstance(self.root, dict):
            return str(self.root.get("name") or self.root["type"])
        return self.root if isinstance(self.root, str) else None

    @property
    def is_bytes(self) -> bool:
        """True for the schema "bytes", without a logical type."""
        root = self.root
        return root == "bytes" or (
            isinstance(root, dict) and root["type"] == "bytes" and "logicalType" not in root
        )

    def alone(self, schema: Any) -> Any:
        """A type of it, in the form that fastavro checks values with, without another look at its names."""
        is_primitive = isinstance(schema, str) and schema in PRIMITIVES
        return _with_names({"type": schema} if is_primitive else schema, self.named)

    def within(self, root: Any) -> Iterator[Any]:
        """A type and all types in it, those with a name once."""
        seen: set[str] = set()
        left = [root]
        while left:
            schema = left.pop()
            if isinstance(schema, str) and schema in self.named:
                if schema in seen:
                    continue
                seen.add(schema)
                schema = self.named[schema]
            yield schema
            left.extend(_parts(schema))

    def records_of_unions(self) -> dict[str, str]:
        """The full names of records that a union has beside others, by their names without a namespace."""
        found: dict[str, set[str]] = {}
        unions = (each for each in _types([self.root, *self.named.values()]) if isinstance(each, list))
        for union in unions:
            records = {name for each in union if (name := self._record_of(each)) is not None}
            for name in records if len(records) > 1 else ():
                found.setdefault(name.rpartition(".")[2], set()).add(name)
        return {short: names.pop() for short, names in found.items() if len(names) == 1}

    def _record_of(self, schema: Any) -> str | None:
        schema = self.named.get(schema, schema) if isinstance(schema, str) else schema
        return schema["name"] if isinstance(schema, dict) and schema["type"] in _RECORDS else None


def parsed(text: str, referred: Iterable[str] = ()) -> AvroSchema:
    """The schema of a text; `referred` has the texts of the schemas that it refers to, each after those that it needs."""
    named: dict[str, Any] = {}
    try:
        for each in referred:
            parse_schema(_loaded(each), named)
        root = parse_schema(_loaded(text), named)
    except (SchemaParseException, UnknownType, *_UNFIT, RecursionError) as error:
        problem = f"schema: is no Avro schema: {type(error).__name__}: {error}"
        raise ConfigurationError(problem + advice_about(text)) from None
    _set_defaults(named)
    return AvroSchema(_with_names(root, named), named)


def _with_names(root: Any, named: Mapping[str, Any]) -> Any:
    """A schema with the types that it names: fastavro looks for them in what it writes, and parses the rest for each object."""
    if isinstance(root, list):
        return [_with_names(each, named) for each in root]
    if isinstance(root, str) and root in PRIMITIVES:
        return root
    schema = named[root] if isinstance(root, str) else root
    # It notes all of them for each object.
    needed = any(isinstance(each, str) and each not in PRIMITIVES for each in _types([schema]))
    return {**schema, "__fastavro_parsed": True, "__named_schemas": named if needed else {}}


def _set_defaults(named: Mapping[str, Any]) -> None:
    """Make the defaults of bytes bytes: fastavro would refuse the text of the schema."""
    for schema in named.values():
        for field in schema["fields"] if schema["type"] in _RECORDS else ():
            if "default" in field:
                # One that does not fit is refused when it is needed.
                with suppress(*_UNFIT):
                    field["default"] = as_data(named, field["type"], field["default"])


def _types(schemas: Iterable[Any]) -> Iterator[Any]:
    """Some types, and all types in them that are not only named there."""
    for schema in schemas:
        yield schema
        yield from _types(_parts(schema))


def _parts(schema: Any) -> list[Any]:
    """The types of which a type is made."""
    if isinstance(schema, list):
        return schema
    if not isinstance(schema, dict):
        return []
    fields = [each["type"] for each in schema.get("fields", ())]
    return fields + [schema[each] for each in ("items", "values") if each in schema]


def _loaded(text: str) -> Any:
    return json.loads(text, object_hook=_interned)


def _interned(schema: dict[str, Any]) -> dict[str, Any]:
    # The names of fields are looked up in each object, whose keys mostly are literals: equal objects are found sooner.
    return {key: sys.intern(value) if isinstance(value, str) else value for key, value in schema.items()}

"""Whether a reader's Avro schema can read what another one has written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

__all__ = ["AvroNames", "can_read"]

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_PROMOTED: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}


class AvroNames:
    """A schema with the named types that it, and the schemas that it refers to, define."""

    def __init__(self, text: str, imported: Iterable[str] = ()) -> None:
        self._types: dict[str, dict[str, Any]] = {}
        for each in imported:
            self._learn(json.loads(each), "")
        self.root: Any = json.loads(text)
        self._learn(self.root, "")

    def resolved(self, schema: Any) -> Any:
        """A type in place of its name; ValueError for an unknown one."""
        if isinstance(schema, str) and schema not in PRIMITIVES:
            if schema not in self._types:
                raise ValueError(f"unknown type {schema!r}")
            return self._types[schema]
        if isinstance(schema, dict) and isinstance(schema.get("type"), dict | list):
            return self.resolved(schema["type"])
        return schema

    def _learn(self, schema: Any, namespace: str) -> None:
        """Note the named types, and write full names in place of short ones."""
        if isinstance(schema, list):
            for index, each in enumerate(schema):
                schema[index] = self._named(each, namespace)
        elif isinstance(schema, dict):
            self._learn_type(schema, namespace)
        elif not isinstance(schema, str):
            raise ValueError("a schema is a string, a list or an object")

    def _learn_type(self, schema: dict[str, Any], namespace: str) -> None:
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            name = str(schema["name"])
            space = name.rpartition(".")[0] if "." in name else schema.get("namespace", namespace)
            schema["name"] = name if "." in name or not space else f"{space}.{name}"
            self._types[schema["name"]] = schema
            for field in schema["fields"] if kind in ("record", "error") else ():
                field["type"] = self._named(field["type"], space)
        elif kind == "array":
            schema["items"] = self._named(schema["items"], namespace)
        elif kind == "map":
            schema["values"] = self._named(schema["values"], namespace)
        else:
            schema["type"] = self._named(kind, namespace)

    def _named(self, schema: Any, namespace: str) -> Any:
        if not isinstance(schema, str):
            self._learn(schema, namespace)
            return schema
        if schema in PRIMITIVES or "." in schema or not namespace:
            return schema
        full = f"{namespace}.{schema}"
        return full if full in self._types else schema

    def check(self, schema: Any = None, seen: tuple[str, ...] = ()) -> None:
        """ValueError or KeyError for a schema that is none."""
        schema = self.resolved(self.root if schema is None else schema)
        parts, seen = _parts_of(schema, seen)
        for each in parts:
            self.check(each, seen)


def _parts_of(schema: Any, seen: tuple[str, ...]) -> tuple[list[Any], tuple[str, ...]]:
    """The types that a type consists of, and the names of the records around them."""
    if isinstance(schema, list):
        return schema, seen
    kind = kind_of(schema)
    if kind in ("record", "error"):
        name = schema["name"]
        return [] if name in seen else [_type_of(field) for field in schema["fields"]], (*seen, name)
    if kind in ("array", "map"):
        return [schema["items" if kind == "array" else "values"]], seen
    if kind == "enum":
        _ = [str(each) for each in schema["symbols"]]
    elif kind == "fixed":
        _ = int(schema["size"])
    elif kind not in PRIMITIVES:
        raise ValueError(f"unknown type {kind!r}")
    return [], seen


def _type_of(field: dict[str, Any]) -> Any:
    _ = field["name"]
    return field["type"]


def kind_of(schema: Any) -> str:
    """The name of the kind of a type."""
    return str(schema if isinstance(schema, str) else schema["type"])


def can_read(reader: AvroNames, writer: AvroNames) -> bool:
    """True when the reader's schema can read everything that is written by the writer's."""
    return _Comparison(reader, writer).reads(reader.root, writer.root)


class _Comparison:
    def __init__(self, reader: AvroNames, writer: AvroNames) -> None:
        self._reader = reader
        self._writer = writer
        # Of recursive types.
        self._assumed: set[tuple[str, str]] = set()

    def reads(self, reader: Any, writer: Any) -> bool:
        reader, writer = self._reader.resolved(reader), self._writer.resolved(writer)
        if isinstance(writer, list):
            return all(self.reads(reader, each) for each in writer)
        if isinstance(reader, list):
            return any(self.reads(each, writer) for each in reader)
        kind = kind_of(writer)
        if kind_of(reader) != kind:
            return kind_of(reader) in _PROMOTED.get(kind, ())
        rule = _RULES.get(kind)
        return rule is None or rule(self, reader, writer)

    def _enum(self, reader: dict[str, Any], writer: dict[str, Any]) -> bool:
        known = set(reader["symbols"])
        return _same_name(reader, writer) and ("default" in reader or set(writer["symbols"]) <= known)

    def _fixed(self, reader: dict[str, Any], writer: dict[str, Any]) -> bool:
        return _same_name(reader, writer) and bool(reader["size"] == writer["size"])

    def _array(self, reader: dict[str, Any], writer: dict[str, Any]) -> bool:
        return self.reads(reader["items"], writer["items"])

    def _map(self, reader: dict[str, Any], writer: dict[str, Any]) -> bool:
        return self.reads(reader["values"], writer["values"])

    def _record(self, reader: dict[str, Any], writer: dict[str, Any]) -> bool:
        pair = reader["name"], writer["name"]
        if pair in self._assumed:
            return True
        if not _same_name(reader, writer):
            return False
        self._assumed.add(pair)
        written = {field["name"]: field for field in writer["fields"]}
        return all(self._field(field, written) for field in reader["fields"])

    def _field(self, field: dict[str, Any], written: dict[str, dict[str, Any]]) -> bool:
        for name in (field["name"], *field.get("aliases", ())):
            if name in written:
                return self.reads(field["type"], written[name]["type"])
        return "default" in field


def _same_name(reader: dict[str, Any], writer: dict[str, Any]) -> bool:
    short = writer["name"].rpartition(".")[2]
    names = (reader["name"], *reader.get("aliases", ()))
    return any(name.rpartition(".")[2] == short for name in names)


_RULES: Final[dict[str, Callable[[_Comparison, dict[str, Any], dict[str, Any]], bool]]] = {
    "record": _Comparison._record,  # noqa: SLF001 - of this file
    "error": _Comparison._record,  # noqa: SLF001
    "enum": _Comparison._enum,  # noqa: SLF001
    "fixed": _Comparison._fixed,  # noqa: SLF001
    "array": _Comparison._array,  # noqa: SLF001
    "map": _Comparison._map,  # noqa: SLF001
}

"""The defaults of Avro schemas as fastavro takes them: bytes are text in a schema, a character for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["as_data"]


def as_data(named: Mapping[str, Any], schema: Any, default: Any) -> Any:
    """The default of a type as data. `named`: all named types."""
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    if isinstance(schema, list):
        return as_data(named, schema[0], default)
    kind = schema["type"]
    if kind in {"bytes", "fixed"} and isinstance(default, str):
        return default.encode("latin-1")
    if kind == "array":
        return [as_data(named, schema["items"], each) for each in default]
    if kind == "map":
        return {key: as_data(named, schema["values"], each) for key, each in default.items()}
    if kind == "record":
        given = {each["name"]: default.get(each["name"], each.get("default")) for each in schema["fields"]}
        return {each["name"]: as_data(named, each["type"], given[each["name"]]) for each in schema["fields"]}
    return default

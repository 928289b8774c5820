"""Mappings of which fastavro would leave out a part: the keys that their record does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["is_held", "may_lose"]


def is_held(schema: Any, data: Any, named: Mapping[str, Any]) -> bool:
    """Whether a type has a place for each key of a mapping, and of the mappings in it. Behind a name, nothing is looked at."""
    if not isinstance(data, Mapping | list):
        return True
    if isinstance(schema, list):
        return any(is_held(each, data, named) for each in schema)
    found = named.get(schema, schema) if isinstance(schema, str) else schema
    if not isinstance(found, dict):
        return False
    if isinstance(data, list):
        return "items" in found and all(is_held(found["items"], each, named) for each in data)
    if "values" in found:
        return all(is_held(found["values"], each, named) for each in data.values())
    types = {each["name"]: each["type"] for each in found.get("fields", ())}
    return all(
        key in types and is_held(types[key], each, named) for key, each in data.items() if key != "-type"
    )


def may_lose(schema: Any, named: Mapping[str, Any]) -> bool:
    """Whether a type has records in it, which may leave out keys."""
    if isinstance(schema, list):
        return any(may_lose(each, named) for each in schema)
    found = named.get(schema, schema) if isinstance(schema, str) else schema
    if not isinstance(found, dict):
        return False
    return "fields" in found or any(
        may_lose(found[each], named) for each in ("items", "values") if each in found
    )

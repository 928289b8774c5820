"""References of JSON schemas: each `$ref` to a schema of the registry becomes one to a place of this schema alone.

A registry knows the name that a schema writes in its `$ref`. A validator joins it with the place of the schema that has it,
where another schema may have the same name, or none: two schemas with a folder in their names would lead to each other's
folders without end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urljoin

import attrs

__all__ = ["References"]

_REFERENCES: Final = ("$ref", "$dynamicRef")
_IDS: Final = ("$id", "id")
# Keywords whose values are no schemas, and those that have schemas by any names.
_DATA: Final = ("const", "enum", "default", "examples")
_BY_NAME: Final = (
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
)
# The steps from a schema to the folder of another one.
_STEPS: Final = re.compile(r"(?:\.{0,2}/)+")


class References:
    """The schemas that a schema refers to, by their names."""

    def __init__(self, contents: Mapping[str, Any]) -> None:
        self._places = {name: f"json-schema:///reference-{at}" for at, name in enumerate(contents)}
        ids = {name: _id_of(content).partition("#")[0] for name, content in contents.items()}
        self._by_id = {own: self._places[name] for name, own in ids.items() if own}
        self._ends = {_without_steps(name): place for name, place in self._places.items()}
        self._contents = {self._places[name]: self.placed(each) for name, each in contents.items()}

    def retrieve(self, uri: str) -> Any:
        """The schema at a place. Nothing is fetched from elsewhere."""
        if uri not in self._contents:
            raise LookupError(f"no reference of the schema has the name {uri}")
        return self._contents[uri]

    def placed(self, schema: Any) -> Any:
        """A schema whose references lead to these places."""
        return _Placing(self).schema(schema, "") if self._places else schema

    def found(self, base: str, reference: str) -> str:
        """The place that a reference leads to, from a schema with this id."""
        document, sign, fragment = reference.partition("#")
        if not document:
            return reference
        whole = urljoin(base, document)
        for each in (document, unquote(document), whole, unquote(whole)):
            place = self._places.get(each) or self._by_id.get(each)
            if place is not None:
                return place + sign + fragment
        # A name may end with another one.
        ends = [end for end in self._ends if unquote(whole).endswith(f"/{end}")]
        return (self._ends[max(ends, key=len)] if ends else whole) + sign + fragment


@attrs.frozen
class _Placing:
    """Writes places into the references of a schema."""

    references: References

    def schema(self, schema: Any, base: str) -> Any:
        """A schema, a list of schemas, or something else in a schema."""
        if isinstance(schema, list):
            return [self.schema(each, base) for each in schema]
        if not isinstance(schema, dict):
            return schema
        base = urljoin(base, _id_of(schema))
        return {key: self._value(key, value, base) for key, value in schema.items()}

    def _value(self, key: str, value: Any, base: str) -> Any:
        if key in _REFERENCES and isinstance(value, str):
            return self.references.found(base, value)
        if key in _DATA:
            return value
        if key in _BY_NAME and isinstance(value, dict):
            return {name: self.schema(each, base) for name, each in value.items()}
        return self.schema(value, base)


def _without_steps(name: str) -> str:
    steps = _STEPS.match(name)
    return name if steps is None else name[steps.end() :]


def _id_of(schema: Any) -> str:
    """The address that a schema gives to itself; the empty text without one."""
    ids = [schema.get(key) for key in _IDS] if isinstance(schema, dict) else []
    return next((each for each in ids if isinstance(each, str)), "")

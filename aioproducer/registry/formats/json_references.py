"""References of JSON schemas: each `$ref` to a schema of the registry becomes one to a place of this schema alone.

A registry knows the name that a schema writes in its `$ref`. A validator joins it with the place of the schema that has it,
where another schema may have the same name, or none: two schemas with a folder in their names would lead to each other's
folders without end. Its own addresses come before schemas of the registry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urljoin

import attrs

__all__ = ["References"]

_REFERENCES: Final = ("$ref", "$dynamicRef")
_IDS: Final = ("$id", "id")
# Keywords that have schemas by any names.
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
# The base of a schema without an address: the validator's own, and one that `urljoin` knows in its place.
_NOWHERE: Final = "json-schema:///"
_BASE: Final = "http://json-schema.invalid/"
_METASCHEMAS: Final = ("http://json-schema.org/", "https://json-schema.org/")


class References:
    """The schemas that `root` refers to, by their names."""

    def __init__(self, contents: Mapping[str, Any], root: Any) -> None:
        self._places = {name: f"{_NOWHERE}reference-{at}" for at, name in enumerate(contents)}
        ids = {name: _address_of(content) for name, content in contents.items()}
        self._by_id = {own: self._places[name] for name, own in ids.items() if own}
        self._ends = {_without_steps(name): place for name, place in self._places.items()}
        self._root = urljoin(_BASE, _address_of(root))
        self._contents = {
            self._places[name]: self._placed(each, is_referred=True) for name, each in contents.items()
        }

    def retrieve(self, uri: str) -> Any:
        """The schema at a place, or with a name. Nothing is fetched from elsewhere."""
        place = uri if uri in self._contents else self._place_of(uri.removeprefix(_NOWHERE))
        if place is None:
            raise LookupError(f"no reference of the schema has the name {uri}")
        return self._contents[place]

    def placed(self, schema: Any) -> Any:
        """The root, with references that lead to these places."""
        return self._placed(schema, is_referred=False) if self._places else schema

    def _placed(self, schema: Any, *, is_referred: bool) -> Any:
        own = frozenset(_addresses_in(schema, _BASE))
        return _Placing(self, own, is_referred).schema(schema, _BASE)

    def _place_of(self, name: str) -> str | None:
        return self._places.get(name) or self._by_id.get(name)

    def named(self, document: str, joined: str) -> str:
        """The place of a document, as it is written in a schema, and joined with the address of that schema."""
        name = joined.removeprefix(_BASE)
        for each in (document, unquote(document), name, unquote(name)):
            if (place := self._place_of(each)) is not None:
                return place
        if urljoin(self._root, document) == self._root:
            # From a schema without an address of its own back to the root.
            return _to_nowhere(self._root)
        # A name may end with another one.
        whole = unquote(joined)
        ends = [end for end in self._ends if whole.endswith(f"/{end}")]
        return self._ends[max(ends, key=len)] if ends else _to_nowhere(joined)


@attrs.frozen
class _Placing:
    """Writes places into the references of a schema."""

    references: References
    # The addresses that it has itself.
    own: frozenset[str]
    # A validator joins the references of a schema that it has retrieved with its place, and not with its address.
    is_referred: bool

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
            return self._reference(base, value)
        if _is_data(key, value):
            return value
        if key in _BY_NAME and isinstance(value, dict):
            return {name: self.schema(each, base) for name, each in value.items()}
        return self.schema(value, base)

    def _reference(self, base: str, reference: str) -> str:
        document, sign, fragment = reference.partition("#")
        try:
            joined = urljoin(base, document)
        except ValueError:
            # It is no address. Perhaps nothing follows it.
            return reference
        if not document:
            return reference
        if joined in self.own:
            return _to_nowhere(joined) + sign + fragment if self.is_referred else reference
        if joined.startswith(_METASCHEMAS):
            return reference
        return self.references.named(document, joined) + sign + fragment


def _is_data(key: str, value: Any) -> bool:
    """Whether this is no schema. A container that is no keyword may have schemas with the names of keywords."""
    return key == "const" or (key == "enum" and isinstance(value, list))


def _addresses_in(schema: Any, base: str) -> Iterator[str]:
    """The addresses that a schema gives to itself and to its parts."""
    if isinstance(schema, list):
        for each in schema:
            yield from _addresses_in(each, base)
    if not isinstance(schema, dict):
        return
    if own := _address_of(schema):
        base = urljoin(base, own)
        yield base
    for key, value in schema.items():
        if key in _BY_NAME and isinstance(value, dict):
            for each in value.values():
                yield from _addresses_in(each, base)
        elif not _is_data(key, value):
            yield from _addresses_in(value, base)


def _to_nowhere(address: str) -> str:
    return address.replace(_BASE, _NOWHERE, 1)


def _without_steps(name: str) -> str:
    steps = _STEPS.match(name)
    return name if steps is None else name[steps.end() :]


def _address_of(schema: Any) -> str:
    return _id_of(schema).partition("#")[0]


def _id_of(schema: Any) -> str:
    """The address that a schema says it has; the empty text without one."""
    ids = [schema.get(key) for key in _IDS] if isinstance(schema, dict) else []
    return next((each for each in ids if isinstance(each, str)), "")

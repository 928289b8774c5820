"""Mappings of which fastavro would leave out a part: the keys that their record does not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import attrs

from aioproducer.registry.formats.avro_schemas import AvroSchema

__all__ = ["ATOMS", "Places", "may_lose"]

# Most values in mappings are of these classes.
ATOMS: Final = frozenset((str, int, float, bool, bytes, type(None)))
# Of a value of another type: more than any mapping has keys.
_ALL: Final = 1 << 40
_NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})
_NO_ITEMS: Final = (str, bytes, bytearray, memoryview)


@attrs.frozen
class Places:
    """Counts the parts of one value that have no place in a type.

    A key whose value is None needs none: a reader finds None without it as well. Behind a name, and in objects that are not
    converted yet, nothing is looked at.
    """

    whole: AvroSchema
    """The schema with all types that have a name."""
    _known: dict[tuple[int, int], tuple[Any, int]] = attrs.field(factory=dict, init=False)
    """Of the values in unions: each union tries all of its types, with the unions in them."""

    def lost(self, schema: Any, data: Any) -> int:
        """The number of the keys of a mapping, and of the mappings in it, that have no place in a type."""
        is_mapping = type(data) is dict or isinstance(data, Mapping)
        if not is_mapping and (
            not isinstance(data, Sequence) or isinstance(data, _NO_ITEMS) or hasattr(data, "_asdict")
        ):
            return 0
        if isinstance(schema, list):
            return self._lost_in_union(schema, data)
        found = self.whole.named.get(schema, schema) if isinstance(schema, str) else schema
        if not isinstance(found, dict):
            return _ALL
        if not is_mapping:
            return self._lost_in_all(found["items"], data) if "items" in found else _ALL
        if "values" in found:
            return self._lost_in_all(found["values"], data.values())
        types = self.whole.fields.get(found.get("name", ""), _NO_FIELDS)
        lost = 0
        for key, each in data.items():
            if each is None or key == "-type":
                continue
            if key not in types:
                lost += 1
            elif type(each) not in ATOMS:
                lost += self.lost(types[key], each)
        return lost

    def _lost_in_all(self, schema: Any, values: Iterable[Any]) -> int:
        return sum(self.lost(schema, each) for each in values if type(each) not in ATOMS)

    def _lost_in_union(self, schema: list[Any], data: Any) -> int:
        if isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], str):
            # The name of the type, and the value.
            return 0
        key = (id(schema), id(data))
        known = self._known.get(key)
        if known is None:
            lost = min((self.lost(each, data) for each in schema if each != "null"), default=_ALL)
            # With the value: no other one has its number meanwhile.
            known = self._known[key] = data, lost
        return known[1]


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

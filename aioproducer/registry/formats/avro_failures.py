"""The reason for which fastavro does not write an object: the field, the class of its value and the type of the schema.

fastavro's own errors show the value, often the whole record, and not its field. Errors go to logs and dead letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from io import BytesIO
from typing import Any, Final

import attrs
from fastavro import schemaless_writer

from aioproducer.registry.formats.avro_schemas import AvroSchema
from aioproducer.registry.formats.unknown_fields import shown_name

__all__ = ["reason_of"]

_RECORDS: Final = {"record", "error"}
_MOST_NAMES: Final = 5


def reason_of(schema: AvroSchema, data: Any, *, strict: bool) -> str:
    """The reason for an object that fastavro has not written."""
    return (
        _Search(schema, strict=strict).reason(schema.root, data) or "the object does not fit its Avro schema"
    )


@attrs.frozen
class _Search:
    """Writes the parts of an object alone, until it finds one without parts that is not written."""

    whole: AvroSchema
    strict: bool = attrs.field(kw_only=True)
    _alone: dict[int, Any] = attrs.field(factory=dict, init=False)
    """The types in the form that fastavro writes with: an array may have many items."""

    def reason(self, schema: Any, data: Any) -> str | None:
        """The reason for a value; None if it is written."""
        found = self._resolved(schema)
        try:
            schemaless_writer(BytesIO(), self._form_of(found), data, strict=self.strict)
        except UnicodeError:
            reason = "a text with a lone surrogate has no bytes"
        except Exception:  # noqa: BLE001  # of fastavro, about a value of the user
            reason = f"{_described(data)} does not fit {_name(found)}"
        else:
            return None
        return self._of_parts(found, data) or reason

    def _form_of(self, schema: Any) -> Any:
        form = self._alone.get(id(schema))
        if form is None:
            # A part of the whole schema, which has its number as long as that is there.
            form = self._alone[id(schema)] = self.whole.alone(schema)
        return form

    def _of_parts(self, schema: Any, data: Any) -> str | None:
        if isinstance(schema, list):
            others = [each for each in schema if each != "null"]
            return self._of_parts(self._resolved(others[0]), data) if len(others) == 1 else None
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind == "array" and isinstance(data, Iterable) and not isinstance(data, str | bytes | Mapping):
            return self._first(schema["items"], data)
        if not isinstance(data, Mapping):
            return None
        if kind in _RECORDS:
            return self._of_record(schema, data)
        return self._of_map(schema["values"], data) if kind == "map" else None

    def _resolved(self, schema: Any) -> Any:
        return self.whole.named.get(schema, schema) if isinstance(schema, str) else schema

    def _of_map(self, schema: Any, data: Mapping[Any, Any]) -> str | None:
        other = next((each for each in data if not isinstance(each, str)), None)
        if other is not None:
            return f"a key of a map is a text, not {type(other).__name__}"
        return self._first(schema, data.values())

    def _first(self, schema: Any, values: Iterable[Any]) -> str | None:
        reasons = map(partial(self.reason, schema), values)
        return next((each for each in reasons if each is not None), None)

    def _of_record(self, schema: Any, data: Mapping[Any, Any]) -> str | None:
        for field in schema["fields"]:
            name = field["name"]
            is_missing = name not in data
            if is_missing and self.strict:
                return f"no value on field {name}"
            reason = self.reason(field["type"], field.get("default") if is_missing else data[name])
            if reason is not None and is_missing:
                reason = (
                    "no value, and no default that fits" if "default" in field else "no value and no default"
                )
            if reason is not None:
                return f"{reason} on field {name}"
        # A name may be data of a user, such as an address. One that could be in a schema is most likely misspelled.
        others = sorted(map(shown_name, data.keys() - {each["name"] for each in schema["fields"]}))
        if not self.strict or not others:
            return None
        return f"{schema['name']} has no field {', '.join(others[:_MOST_NAMES])}"


def _described(data: Any) -> str:
    return "None" if data is None else f"this {type(data).__name__}"


def _name(schema: Any) -> str:
    if isinstance(schema, list):
        return f"the union of {', '.join(map(_short_name, schema))}"
    return f"the type {_short_name(schema)}"


def _short_name(schema: Any) -> str:
    if not isinstance(schema, dict):
        return str(schema)
    kind = str(schema["type"])
    if "logicalType" in schema:
        numbers = [str(schema[each]) for each in ("precision", "scale") if each in schema]
        kind = f"{kind} with {schema['logicalType']}" + (f"({', '.join(numbers)})" if numbers else "")
    if kind == "fixed":
        kind = f"{kind} of {schema['size']} bytes"
    return f"{kind} {schema['name']}" if "name" in schema else kind

"""Rows as Avro: a schema, applied to the types of columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from typing import Any, Final

import pyarrow as pa

from aioproducer._formats.avro_defaults import as_data
from aioproducer._formats.forms import NOWHERE, Form, UnfitError
from aioproducer._formats.types import is_bytes, is_list, is_text, places_of, varint
from aioproducer.errors import ConfigurationError

try:
    from fastavro import parse_schema, schemaless_writer
    from fastavro.schema import SchemaParseException, UnknownType
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "fastavro":
        raise
    raise ModuleNotFoundError(
        "Avro requires the extra avro: pip install 'aioproducer[avro]'", name=error.name
    ) from None

__all__ = ["avro_form"]

NULL: Final = "null"
PRIMITIVES: Final = frozenset({NULL, "boolean", "int", "long", "float", "double", "bytes", "string"})
INT: Final = (("low", -(1 << 31)), ("high", (1 << 31) - 1))
# In microseconds, the unit of Spark's moments.
OF_MOMENTS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "timestamp-millis": (("divisor", 1000),),
    "timestamp-micros": (),
    "timestamp-nanos": (("factor", 1000),),
}
LOCAL: Final = "local-"
# In nanoseconds, the unit of Spark's times of day.
OF_TIMES: Final = {"time-millis": (("divisor", 1_000_000),), "time-micros": (("divisor", 1_000),)}


def avro_form(kind: Any, text: str, referred: Iterable[str] = ()) -> Form:
    """The form of rows of an Arrow type by a schema; UnfitError with a line for each field and column that do not fit.

    `referred`: the texts of the schemas that the schema refers to, each after those that it refers to itself.
    """
    named: dict[str, Any] = {}
    try:
        for each in referred:
            parse_schema(json.loads(each), named)
        parsed: Any = parse_schema(json.loads(text), named)
    except (SchemaParseException, UnknownType, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"the Avro schema cannot be read: {type(error).__name__}: {error}") from None
    return _Forms(named).of(kind, parsed, "")


class _Forms:
    """The forms of types by the named types of a schema."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def of(self, kind: Any, schema: Any, path: str) -> Form:
        """The form of items of a type, in one of the types that the schema allows."""
        if not isinstance(schema, list):
            return self._plain(kind, schema, path, b"", None)
        nulls = [at for at, each in enumerate(schema) if self._name(each) == NULL]
        absent = varint(nulls[0] << 1) if nulls else None
        if pa.types.is_null(kind) and nulls:
            return Form("constant", path, absent=absent)
        reasons = []
        for at, each in enumerate(schema):
            try:
                if at not in nulls:
                    return self._plain(kind, each, path, varint(at << 1), absent)
            except UnfitError as error:
                reasons.append(str(error))
        raise UnfitError("; ".join(reasons) or f"{path}: the schema allows null only")

    def _name(self, schema: Any) -> str:
        return str(schema["type"] if isinstance(schema, dict) else schema)

    def _plain(self, kind: Any, schema: Any, path: str, before: bytes, absent: bytes | None) -> Form:
        if isinstance(schema, str) and schema not in PRIMITIVES:
            schema = self._named[schema]
        if isinstance(schema, str):
            schema = {"type": schema}
        if isinstance(schema["type"], dict | list):
            return self.of(kind, schema["type"], path)
        name = schema["type"]
        compound = {"record": self._record, "error": self._record, "array": self._array, "map": self._map}
        if name in compound:
            return compound[name](kind, schema, path, before, absent)
        leaf = _leaf(kind, name, schema)
        if leaf is None:
            said = schema.get("logicalType", name)
            raise UnfitError(f"{path or 'the column'}: a column of {kind} does not fit {said} of the schema")
        form, cast, more = leaf
        if name == "enum":
            symbols = tuple(schema["symbols"])
            numbers = tuple(range(len(symbols)))
            more = (("high", len(symbols) - 1),)
            return Form(form, path, before, absent, symbols=symbols, numbers=numbers, more=more)
        return Form(form, path, before, absent, cast=cast, more=more)

    def _record(self, kind: Any, schema: Any, path: str, before: bytes, absent: bytes | None) -> Form:
        if not pa.types.is_struct(kind):
            raise UnfitError(
                f"{path or 'the column'}: a column of {kind} does not fit the record {schema['name']}"
            )
        columns = [each.name for each in kind]
        places = places_of([each["name"] for each in schema["fields"]], columns)
        fields, problems = [], []
        for at, field in zip(places, schema["fields"], strict=True):
            within = f"{path}.{field['name']}" if path else field["name"]
            try:
                fields.append(
                    self._default(field, within)
                    if at == NOWHERE
                    else self.of(kind[at].type, field["type"], within)
                )
            except UnfitError as error:
                problems.append(str(error))
        problems += [
            f"{path}.{name}: the schema has no such field"
            if path
            else f"{name}: the schema has no such field"
            for at, name in enumerate(columns)
            if at not in places
        ]
        if problems:
            raise UnfitError("; ".join(problems))
        return Form("record", path, before, absent, tuple(fields), tuple(places))

    def _default(self, field: Any, path: str) -> Form:
        """A field without a column has its default in each row."""
        if "default" not in field:
            raise UnfitError(f"{path}: a column is missing, and the schema has no default for it")
        buffer = BytesIO()
        try:
            alone = parse_schema({"type": "record", "name": "Alone", "fields": [field]}, dict(self._named))
            schemaless_writer(
                buffer, alone, {field["name"]: as_data(self._named, field["type"], field["default"])}
            )
        except Exception as error:  # noqa: BLE001  # of another library, about a schema of the user
            raise UnfitError(f"{path}: its default cannot be written: {error}") from None
        return Form("constant", path, buffer.getvalue(), b"")

    def _array(self, kind: Any, schema: Any, path: str, before: bytes, absent: bytes | None) -> Form:
        if not is_list(kind):
            raise UnfitError(f"{path}: a column of {kind} does not fit an array of the schema")
        return Form("avro array", path, before, absent, (self.of(kind.value_type, schema["items"], path),))

    def _map(self, kind: Any, schema: Any, path: str, before: bytes, absent: bytes | None) -> Form:
        if not pa.types.is_map(kind) or not is_text(kind.key_type):
            raise UnfitError(
                f"{path}: a column of {kind} does not fit a map of the schema, whose keys are strings"
            )
        entry = Form("avro string", path), self.of(kind.item_type, schema["values"], path)
        return Form("avro map", path, before, absent, entry)


_Leaf = tuple[str, str, tuple[tuple[str, int], ...]]


# By the names of types of Avro: the types that fit, and the kind of node.
SIMPLE: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "fixed": (is_bytes, "fixed bytes"),
    "bytes": (is_bytes, "avro bytes"),
    "string": (is_text, "avro string"),
    "enum": (is_text, "zigzag"),
    "boolean": (pa.types.is_boolean, "boolean"),
}


def _leaf(kind: Any, name: str, schema: Any) -> _Leaf | None:
    """The kind of node, the cast before it and further arguments; None if the type does not fit."""
    logical = schema.get("logicalType")
    if name in {"int", "long"}:
        return _integer(kind, name, logical)
    if pa.types.is_decimal(kind):
        return _decimal(kind, name, schema) if logical == "decimal" else None
    if name not in SIMPLE:
        return _float(kind, name)
    fits, node = SIMPLE[name]
    # A string may be a UUID, but bytes that are a decimal or a duration have a form of their own.
    if not fits(kind) or (logical is not None and name in {"fixed", "bytes"}):
        return None
    return node, "", (("size", schema["size"]),) if name == "fixed" else ()


def _integer(kind: Any, name: str, logical: str | None) -> _Leaf | None:
    limits = INT if name == "int" else ()
    if pa.types.is_timestamp(kind) and kind.unit == "us" and name == "long" and logical is not None:
        is_local = logical.startswith(LOCAL)
        arguments = OF_MOMENTS.get(logical.removeprefix(LOCAL))
        return ("zigzag", "", arguments) if arguments is not None and is_local == (kind.tz is None) else None
    if pa.types.is_date32(kind):
        return ("zigzag", "", limits) if logical == "date" else None
    if pa.types.is_time64(kind) and kind.unit == "ns":
        return ("zigzag", "", OF_TIMES[logical]) if logical in OF_TIMES else None
    return ("zigzag", "", limits) if pa.types.is_signed_integer(kind) and logical is None else None


def _float(kind: Any, name: str) -> _Leaf | None:
    if name == "float":
        return ("number", "", ()) if pa.types.is_float32(kind) else None
    if name != "double":
        return None
    if pa.types.is_float64(kind):
        return "number", "", ()
    exact = pa.types.is_float32(kind) or (pa.types.is_signed_integer(kind) and kind.bit_width <= 32)
    return ("number", "double", ()) if exact else None


def _decimal(kind: Any, name: str, schema: Any) -> _Leaf | None:
    if schema.get("scale", 0) != kind.scale or schema.get("precision", 0) < kind.precision:
        return None
    if name == "fixed":
        return "fixed decimal", "", (("size", schema["size"]),)
    return ("avro decimal", "", ()) if name == "bytes" else None

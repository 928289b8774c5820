"""Random types of columns with rows that fit them."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import attrs
import pyarrow as pa
from hypothesis import strategies as st


@attrs.frozen
class Kind:
    """A type of Arrow, items of it, and the type of Avro."""

    arrow: Any
    items: st.SearchStrategy[Any]
    avro: Any


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
MOMENTS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31), timezones=st.just(dt.UTC))  # noqa: DTZ001


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda number: Decimal(number).scaleb(-scale))


LEAVES = [
    Kind(pa.int8(), _integers(8), "int"),
    Kind(pa.int16(), _integers(16), "int"),
    Kind(pa.int32(), _integers(32), "int"),
    Kind(pa.int32(), _integers(32), "long"),
    Kind(pa.int64(), _integers(64), "long"),
    Kind(pa.bool_(), st.booleans(), "boolean"),
    Kind(pa.float32(), st.floats(width=32, allow_nan=False), "float"),
    Kind(pa.float64(), st.floats(allow_nan=False), "double"),
    Kind(pa.string(), TEXT, "string"),
    Kind(pa.large_string(), TEXT, "string"),
    Kind(pa.binary(), st.binary(max_size=8), "bytes"),
    Kind(pa.date32(), st.dates(), {"type": "int", "logicalType": "date"}),
    Kind(pa.timestamp("us", "UTC"), MOMENTS, {"type": "long", "logicalType": "timestamp-micros"}),
    Kind(
        pa.decimal128(20, 6),
        _decimals(20, 6),
        {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 6},
    ),
]


def _nullable(kind: Kind) -> Kind:
    return Kind(kind.arrow, st.none() | kind.items, ["null", kind.avro])


def _list(kind: Kind) -> Kind:
    return Kind(pa.list_(kind.arrow), st.lists(kind.items, max_size=3), {"type": "array", "items": kind.avro})


def _map(kind: Kind) -> Kind:
    items = st.dictionaries(TEXT, kind.items, max_size=3).map(lambda found: list(found.items()))
    return Kind(pa.map_(pa.string(), kind.arrow), items, {"type": "map", "values": kind.avro})


def struct(fields: list[Kind]) -> Kind:
    """A struct with a field `f0`, `f1`, … of each kind."""
    named = {f"f{at}": kind for at, kind in enumerate(fields)}
    record = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": each, "type": kind.avro} for each, kind in named.items()],
    }
    arrow = pa.struct([pa.field(each, kind.arrow) for each, kind in named.items()])
    return Kind(arrow, st.fixed_dictionaries({each: kind.items for each, kind in named.items()}), record)


@st.composite
def _within(draw: st.DrawFn, inner: st.SearchStrategy[Kind]) -> Kind:
    way = draw(st.sampled_from(["nullable", "list", "map", "struct"]))
    if way == "struct":
        return struct(draw(st.lists(inner, min_size=1, max_size=3)))
    kind = draw(inner)
    if way == "nullable":
        return kind if isinstance(kind.avro, list) else _nullable(kind)
    return _list(kind) if way == "list" else _map(kind)


KINDS: st.SearchStrategy[Kind] = st.recursive(st.sampled_from(LEAVES), _within, max_leaves=5)


@st.composite
def tables(draw: st.DrawFn, kinds: st.SearchStrategy[Kind] = KINDS) -> tuple[Kind, list[Any]]:
    """A struct of random fields, with rows."""
    kind = struct(draw(st.lists(kinds, min_size=1, max_size=4)))
    kind = attrs.evolve(kind, avro=_named(kind.avro, itertools.count()))
    return kind, draw(st.lists(kind.items, min_size=1, max_size=5))


def _named(schema: Any, numbers: Iterator[int]) -> Any:
    """The schema with a name of its own for each record."""
    if isinstance(schema, list):
        return [_named(each, numbers) for each in schema]
    if not isinstance(schema, dict):
        return schema
    named = {
        key: _named(each, numbers) if key in {"type", "items", "values"} else each
        for key, each in schema.items()
    }
    if "fields" in named:
        named["name"] = f"S{next(numbers)}"
        named["fields"] = [_named(each, numbers) for each in named["fields"]]
    return named


def as_text(words: list[bytes | None]) -> Any:
    """A column of text with these bytes, also where they are not UTF-8: Spark does not check them."""
    return pa.Array.from_buffers(pa.string(), len(words), pa.array(words, pa.binary()).buffers())


def sliced(kind: Any, rows: list[Any], before: int) -> Any:
    """An Arrow array of these rows, which begins so many items behind the start of its buffers."""
    return pa.array([*rows[:1] * before, *rows], kind).slice(before)

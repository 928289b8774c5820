"""Random Avro schemas, and objects that fit them."""

from __future__ import annotations

import datetime
import string
from itertools import count
from typing import Any

import attrs
from hypothesis import strategies as st

Values = st.SearchStrategy[Any]

_LONG = st.integers(-(2**63), 2**63 - 1)
_PRIMITIVES: dict[str, Values] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": _LONG,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": st.text(max_size=20),
}
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}
_LOGICAL: list[tuple[dict[str, Any], Values]] = [
    ({"type": "int", "logicalType": "date"}, st.dates()),
    ({"type": "long", "logicalType": "time-micros"}, st.times()),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        st.datetimes(timezones=st.just(datetime.UTC)),
    ),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, st.datetimes()),
    ({"type": "string", "logicalType": "uuid"}, st.uuids()),
    (_DECIMAL, st.decimals(-999_999, 999_999, places=2)),
]
_NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=6)


@attrs.frozen
class Shape:
    """A schema, and the strategy of its objects."""

    schema: Any
    values: Values


def _primitive(draw: Any, numbers: Any) -> Shape:
    name = draw(st.sampled_from(sorted(_PRIMITIVES)))
    return Shape(name, _PRIMITIVES[name])


def _enum(draw: Any, numbers: Any) -> Shape:
    symbols = draw(st.lists(_NAMES, min_size=1, max_size=4, unique=True))
    return Shape({"type": "enum", "name": f"E{next(numbers)}", "symbols": symbols}, st.sampled_from(symbols))


def _fixed(draw: Any, numbers: Any) -> Shape:
    size = draw(st.integers(0, 20))
    values = st.binary(min_size=size, max_size=size)
    return Shape({"type": "fixed", "name": f"F{next(numbers)}", "size": size}, values)


def _logical(draw: Any, numbers: Any) -> Shape:
    schema, values = draw(st.sampled_from(_LOGICAL))
    return Shape(schema, values)


def _optional(draw: Any, numbers: Any) -> Shape:
    inner = _logical(draw, numbers)
    return Shape(["null", inner.schema], st.none() | inner.values)


def _union(draw: Any, numbers: Any) -> Shape:
    # Python tells these apart; 1 is a long and a double.
    names = draw(st.lists(st.sampled_from(["long", "string", "bytes"]), min_size=1, max_size=3, unique=True))
    return Shape(["null", *names], st.one_of(st.none(), *(_PRIMITIVES[name] for name in names)))


def _array(draw: Any, numbers: Any, depth: int) -> Shape:
    items = _any(draw, numbers, depth - 1)
    return Shape({"type": "array", "items": items.schema}, st.lists(items.values, max_size=4))


def _map(draw: Any, numbers: Any, depth: int) -> Shape:
    values = _any(draw, numbers, depth - 1)
    return Shape(
        {"type": "map", "values": values.schema},
        st.dictionaries(st.text(max_size=5), values.values, max_size=4),
    )


def _record(draw: Any, numbers: Any, depth: int) -> Shape:
    names = draw(st.lists(_NAMES, min_size=1, max_size=5, unique=True))
    fields = {name: _any(draw, numbers, depth - 1) for name in names}
    described = [{"name": name, "type": shape.schema} for name, shape in fields.items()]
    return Shape(
        {"type": "record", "name": f"R{next(numbers)}", "namespace": "some.space", "fields": described},
        st.fixed_dictionaries({name: shape.values for name, shape in fields.items()}),
    )


def _any(draw: Any, numbers: Any, depth: int) -> Shape:
    flat = (_primitive, _enum, _fixed, _union, _logical, _optional)
    deep = (_array, _map, _record)
    kind = draw(st.sampled_from(flat if depth <= 0 else (*flat, *deep)))
    shape: Shape = kind(draw, numbers, depth) if kind in deep else kind(draw, numbers)
    return shape


@st.composite
def cases(draw: Any) -> tuple[Any, list[Any]]:
    """The schema of a record, and some objects."""
    shape = _record(draw, count(), 3)
    # confluent-kafka refuses records without any data.
    shape.schema["fields"].append({"name": "N", "type": "int"})
    values = shape.values.map(lambda fields: {**fields, "N": 7})
    return shape.schema, draw(st.lists(values, min_size=1, max_size=5))

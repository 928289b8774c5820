"""Rows as Avro, compared with the bytes that fastavro writes."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer import ConfigurationError
from aioproducer._formats.avro_form import avro_form
from aioproducer._formats.encoding import encode
from aioproducer._formats.forms import UnfitError
from tests.formats.rows import Kind, sliced, tables


def by_fastavro(rows: list[Any], schema: Any) -> list[bytes]:
    """The bytes of each row."""
    parsed = fastavro.parse_schema(schema)
    made = []
    for row in rows:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, row)
        made.append(buffer.getvalue())
    return made


def written(array: Any, schema: Any) -> list[bytes | None]:
    """The rows in this schema; all fit."""
    done = encode(avro_form(array.type, json.dumps(schema)), array)
    assert done.unfit == {}
    found: list[bytes | None] = done.values.to_pylist()
    return found


def as_mappings(item: Any, kind: Any) -> Any:
    """Maps of Arrow are lists of pairs, and fastavro takes mappings."""
    if item is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: as_mappings(item[each.name], each.type) for each in kind}
    if pa.types.is_map(kind):
        return {key: as_mappings(each, kind.item_type) for key, each in item}
    if pa.types.is_list(kind):
        return [as_mappings(each, kind.value_type) for each in item]
    return item


@given(tables(), st.integers(0, 9))
def test_any_row_has_the_bytes_of_fastavro(table: tuple[Kind, list[Any]], before: int) -> None:
    """Types of any depth, unions with null, slices."""
    kind, rows = table
    expected = by_fastavro([as_mappings(row, kind.arrow) for row in rows], kind.avro)
    assert written(sliced(kind.arrow, rows, before), kind.avro) == expected


def record(**fields: Any) -> dict[str, Any]:
    """A schema with these fields."""
    return {
        "type": "record",
        "name": "Row",
        "fields": [{"name": name, "type": each} for name, each in fields.items()],
    }


def column(name: str, items: list[Any], kind: Any) -> Any:
    """Rows of one column."""
    return pa.StructArray.from_arrays([pa.array(items, kind)], [name])


def test_logical_types() -> None:
    """Moments in milliseconds and nanoseconds, local ones, times of day, fixed decimals, UUIDs."""
    moments = [
        dt.datetime(2023, 1, 1, tzinfo=dt.UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC),
    ]
    for name in ("timestamp-millis", "timestamp-micros"):
        schema = record(at={"type": "long", "logicalType": name})
        rows = [{"at": moment} for moment in moments]
        assert written(column("at", moments, pa.timestamp("us", "UTC")), schema) == by_fastavro(rows, schema)
    early = column(
        "at", [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")
    )
    # The millisecond in which the moment lies.
    assert written(early, record(at={"type": "long", "logicalType": "timestamp-millis"})) == [b"\x01"]
    assert written(early, record(at={"type": "long", "logicalType": "timestamp-nanos"})) == [b"\xcf\x0f"]
    locals_ = [dt.datetime(2023, 1, 1, 5)]  # noqa: DTZ001
    schema = record(at={"type": "long", "logicalType": "local-timestamp-micros"})
    assert written(column("at", locals_, pa.timestamp("us")), schema) == by_fastavro(
        [{"at": locals_[0]}], schema
    )
    schema = record(at={"type": "long", "logicalType": "time-micros"})
    time = dt.time(1, 2, 3, 4)
    assert written(column("at", [time], pa.time64("ns")), schema) == by_fastavro([{"at": time}], schema)
    numbers = [Decimal("0.00"), Decimal("-1.28"), Decimal("1.27"), Decimal("-99999.99")]
    schema = record(
        n={"type": "fixed", "name": "F", "size": 6, "logicalType": "decimal", "precision": 12, "scale": 2}
    )
    assert written(column("n", numbers, pa.decimal128(9, 2)), schema) == by_fastavro(
        [{"n": n} for n in numbers], schema
    )


def test_enums_and_fixed_bytes() -> None:
    """A symbol is its number; unknown symbols and other sizes do not fit."""
    schema = record(e=["null", {"type": "enum", "name": "E", "symbols": ["A", "B"]}])
    rows = column("e", ["B", None, "C", "A"], pa.string())
    done = encode(avro_form(rows.type, json.dumps(schema)), rows)
    assert done.values.to_pylist() == [b"\x02\x02", b"\0", None, b"\x02\0"]
    assert done.unfit == {2: "e is out of range"}
    rows = column("f", [b"abc", b"ab", b"abcd"], pa.binary())
    done = encode(avro_form(rows.type, json.dumps(record(f={"type": "fixed", "name": "F", "size": 3}))), rows)
    assert (done.values.to_pylist(), done.unfit) == (
        [b"abc", None, None],
        dict.fromkeys([1, 2], "f has another size"),
    )


def test_rows_that_do_not_fit() -> None:
    """A null where the schema has none, a number beyond the schema's: the other rows are written."""
    rows = column("n", [1, None, 1 << 31, -(1 << 31), -(1 << 31) - 1], pa.int64())
    done = encode(avro_form(rows.type, json.dumps(record(n="int"))), rows, b"\0id")
    assert done.unfit == {1: "n is null", 2: "n is out of range", 4: "n is out of range"}
    assert done.values.to_pylist() == [b"\0id\x02", None, None, b"\0id\xff\xff\xff\xff\x0f", None]


def test_columns_find_their_fields_by_name() -> None:
    """In the order of the schema, whatever that of the columns; without a column a field has its default."""
    schema = record(b="string", a="long")
    schema["fields"] += [
        {"name": "c", "type": ["null", "string"], "default": None},
        {"name": "d", "type": {"type": "map", "values": "int"}, "default": {"x": 1}},
    ]
    rows = pa.StructArray.from_arrays([pa.array([5]), pa.array(["x"])], ["a", "B"])
    assert written(rows, schema) == by_fastavro([{"b": "x", "a": 5}], schema)


@pytest.mark.parametrize(
    ("kind", "default", "data"),
    [
        ("bytes", "a\u00ff", b"\x04a\xff"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u0000\u00ff", b"\0\xff"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u0001", b"\x02\x01"),
        (["bytes", "null"], "\u00ff", b"\0\x02\xff"),
        ({"type": "array", "items": "bytes"}, ["\u00ff"], b"\x02\x02\xff\0"),
        ({"type": "map", "values": "Other"}, {"k": "\u00ff"}, b"\x02\x02k\xff\0"),
        (
            {
                "type": "record",
                "name": "N",
                "fields": [{"name": "x", "type": "bytes"}, {"name": "y", "type": "int", "default": 7}],
            },
            {"x": "\u00ff"},
            b"\x02\xff\x0e",
        ),
    ],
)
def test_defaults_of_bytes(kind: Any, default: Any, data: bytes) -> None:
    """A schema has them as text, a character for each byte."""
    schema = record(a={"type": "fixed", "name": "Other", "size": 1})
    schema["fields"].append({"name": "d", "type": kind, "default": default})
    assert written(column("a", [b"x"], pa.binary()), schema) == [b"x" + data]


def test_a_column_is_for_one_field() -> None:
    """An equal name comes before one that differs in case, and no column is left out silently."""
    one, two = pa.array([1]), pa.array([2])
    rows = pa.StructArray.from_arrays([one, two], ["A", "a"])
    assert written(rows, record(a="long", A="long")) == [b"\x04\x02"]
    schema = record(a="long", A="long")
    schema["fields"][1]["default"] = 5
    assert written(column("a", [1], pa.int64()), schema) == [b"\x02\x0a"]
    for names in ("aA", "aa"):
        with pytest.raises(UnfitError, match="the schema has no such field"):
            avro_form(pa.StructArray.from_arrays([one, two], list(names)).type, json.dumps(record(a="long")))


def test_a_decimal_without_a_precision_is_refused() -> None:
    """As one whose precision is too small."""
    with pytest.raises(UnfitError, match="does not fit decimal"):
        avro_form(pa.decimal128(3), json.dumps({"type": "bytes", "logicalType": "decimal"}))


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view(), pa.dictionary(pa.int32(), pa.string())])
def test_arrays_of_another_layout_are_refused(kind: Any) -> None:
    """Their buffers would be taken for offsets."""
    array = pa.array(["long enough for a buffer", "b"]).cast(kind)
    with pytest.raises(TypeError, match="has another layout"):
        encode(avro_form(pa.string(), '"string"'), array)


def test_named_types_and_other_schemas() -> None:
    """A type is defined once and named later, in this schema or in one that it refers to."""
    point = {"type": "record", "name": "a.Point", "fields": [{"name": "x", "type": "int"}]}
    kind = pa.struct([("x", pa.int32())])
    rows = pa.StructArray.from_arrays([pa.array([{"x": 1}], kind), pa.array([None], kind)], ["p", "q"])
    schema = record(p=point, q=["null", "a.Point"])
    assert written(rows, schema) == [b"\x02\0"]
    other = json.dumps(record(p="a.Point", q=["null", "a.Point"]))
    assert encode(avro_form(rows.type, other, [json.dumps(point)]), rows).values.to_pylist() == [b"\x02\0"]


def test_the_first_branch_that_fits() -> None:
    """A union has the branch of the column's type."""
    schema = record(u=["string", "null", "long"])
    assert written(column("u", [7, None], pa.int64()), schema) == by_fastavro([{"u": 7}, {"u": None}], schema)


@pytest.mark.parametrize(
    ("rows", "schema", "words"),
    [
        (
            column("a", [1], pa.int64()),
            record(b="int"),
            "b: a column is missing.*a: the schema has no such field",
        ),
        (column("a", ["x"], pa.string()), record(a="int"), "a: a column of string does not fit int"),
        (
            column("a", [1], pa.int64()),
            record(a=["null", "string"]),
            "a: a column of int64 does not fit string",
        ),
        (column("a", [None], pa.decimal128(9, 2)), record(a="bytes"), "decimal128"),
        (
            column("a", [None], pa.timestamp("us")),
            record(a={"type": "long", "logicalType": "timestamp-micros"}),
            "does not fit timestamp-micros",
        ),
        (
            column("a", [[1]], pa.list_(pa.int32())),
            record(a={"type": "array", "items": "string"}),
            "a: a column of int32",
        ),
        (
            column("a", [[(1, 1)]], pa.map_(pa.int32(), pa.int32())),
            record(a={"type": "map", "values": "int"}),
            "keys are strings",
        ),
        (
            column("a", [{"b": 1}], pa.struct([("b", pa.int32())])),
            record(a=record(b="string")),
            r"a\.b: a column of int32",
        ),
        (pa.array([1]), record(a="int"), "does not fit the record Row"),
    ],
)
def test_columns_that_do_not_fit(rows: Any, schema: Any, words: str) -> None:
    """The error names each column and field."""
    if "Row" in json.dumps(schema)[30:]:
        schema["fields"][0]["type"]["name"] = "Inner"
    with pytest.raises(UnfitError, match=words):
        avro_form(rows.type, json.dumps(schema))


@pytest.mark.parametrize("text", ["", "{}", '{"type": "record"}', '{"type": "unknown"}', "[]x"])
def test_texts_that_are_no_schema(text: str) -> None:
    """The error says so."""
    with pytest.raises(ConfigurationError, match="cannot be read"):
        avro_form(pa.struct([]), text)

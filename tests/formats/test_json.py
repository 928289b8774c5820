"""Rows as JSON, compared with what Python reads in it."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aioproducer._formats.encoding import encode
from aioproducer._formats.forms import UnfitError
from aioproducer._formats.json_form import json_form, told_form
from tests.formats.rows import Kind, as_text, sliced, struct, tables


def written(array: Any, *, omits_nulls: bool = True, prefix: bytes = b"") -> list[bytes | None]:
    """The rows as JSON; all fit."""
    done = encode(json_form(array.type, omits_nulls=omits_nulls), array, prefix)
    assert done.unfit == {}
    found: list[bytes | None] = done.values.to_pylist()
    done.values.validate(full=True)
    return found


def plain(item: Any, kind: Any, *, omits: bool) -> Any:
    """The objects that a reader of to_json's JSON gets for an item."""
    if item is None:
        return None
    if pa.types.is_struct(kind):
        fields = {each.name: plain(item[each.name], each.type, omits=omits) for each in kind}
        return {name: each for name, each in fields.items() if each is not None or not omits}
    if pa.types.is_map(kind):
        return {key: plain(value, kind.item_type, omits=omits) for key, value in item}
    if pa.types.is_list(kind):
        return [plain(each, kind.value_type, omits=omits) for each in item]
    return scalar(item)


def scalar(item: Any) -> Any:
    """The same for an item without parts."""
    if isinstance(item, bytes):
        return base64.b64encode(item).decode()
    if isinstance(item, dt.datetime):
        return item.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(item, dt.date):
        return item.isoformat()
    if isinstance(item, float) and not math.isfinite(item):
        return "NaN" if math.isnan(item) else "Infinity" if item > 0 else "-Infinity"
    return item


@given(tables(), st.integers(0, 9), st.booleans())
def test_any_row_is_read_as_it_was(table: tuple[Kind, list[Any]], before: int, omits: bool) -> None:
    """Types of any depth, nulls, slices: every row is JSON, and has the fields that to_json writes."""
    kind, rows = table
    array = sliced(kind.arrow, rows, before)
    found = [json.loads(each or b"", parse_float=Decimal) for each in written(array, omits_nulls=omits)]
    expected = [plain(row, kind.arrow, omits=omits) for row in rows]
    assert [_close(each, kind.arrow) for each in found] == [_close(each, kind.arrow) for each in expected]


def _close(item: Any, kind: Any) -> Any:
    """Numbers in the precision of their column."""
    if item is None or isinstance(item, str | bool):
        return item
    if pa.types.is_struct(kind):
        return {each.name: _close(item[each.name], each.type) for each in kind if each.name in item}
    if pa.types.is_map(kind):
        return {key: _close(each, kind.item_type) for key, each in item.items()}
    if pa.types.is_list(kind):
        return [_close(each, kind.value_type) for each in item]
    if pa.types.is_floating(kind):
        return pa.scalar(float(item), kind).as_py()
    return item


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
@example(['"\\/\b\f\n\r\t\x00\x1f\x7f', "é€😀", ""])
def test_strings_are_escaped(texts: list[str]) -> None:
    """Whatever is in a string, a reader gets it back."""
    assert [json.loads(each or b"") for each in written(pa.array(texts))] == texts


def test_numbers_without_a_form_in_json_are_strings() -> None:
    """As to_json writes them."""
    numbers = pa.array([math.nan, math.inf, -math.inf, 1.0, 1e300, -0.0, None])
    found = written(pa.StructArray.from_arrays([numbers], ["n"]))
    assert found[:3] == [b'{"n":"NaN"}', b'{"n":"Infinity"}', b'{"n":"-Infinity"}']
    assert [json.loads(each or b"").get("n") for each in found[3:]] == [1.0, 1e300, -0.0, None]


def test_nulls_are_left_out_or_written() -> None:
    """In structs of any depth; in lists and maps they keep their places."""
    kind = pa.struct(
        [
            ("a", pa.int64()),
            ("b", pa.struct([("c", pa.string())])),
            ("d", pa.list_(pa.int8())),
            ("n", pa.null()),
        ]
    )
    rows = pa.array([{"a": None, "b": {"c": None}, "d": [None, 1]}, {"a": 1, "b": None, "d": []}], kind)
    assert written(rows) == [b'{"b":{},"d":[null,1]}', b'{"a":1,"d":[]}']
    assert written(rows, omits_nulls=False) == [
        b'{"a":null,"b":{"c":null},"d":[null,1],"n":null}',
        b'{"a":1,"b":null,"d":[],"n":null}',
    ]


def test_a_null_row_is_a_tombstone() -> None:
    """A null struct has no bytes, not even the prefix; an empty one has."""
    rows = pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int64())]))
    assert written(rows, prefix=b"\0id") == [b'\0id{"a":1}', None, b"\0id{}"]


def test_maps_have_strings_for_keys() -> None:
    """Keys of other types are their text."""
    for kind, keys, texts in (
        (pa.int32(), [1, -2], ["1", "-2"]),
        (pa.bool_(), [True, False], ["true", "false"]),
        (pa.float64(), [1.5, math.nan], ["1.5", "NaN"]),
        (pa.date32(), [dt.date(2020, 2, 29), dt.date(1, 1, 1)], ["2020-02-29", "0001-01-01"]),
        (pa.decimal128(5, 2), [Decimal("1.20"), Decimal("-0.01")], ["1.20", "-0.01"]),
    ):
        rows = pa.array([[(key, None) for key in keys]], pa.map_(kind, pa.int8()))
        assert json.loads(written(rows)[0] or b"") == dict.fromkeys(texts)


def test_times_of_day_and_local_times() -> None:
    """A local time has no zone, a moment is in UTC whatever the zone of its column."""
    moment = dt.datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=dt.UTC)
    assert written(pa.array([moment], pa.timestamp("us", "America/New_York"))) == [
        b'"2023-11-14T22:13:20.123456Z"'
    ]
    local = pa.array([moment.replace(tzinfo=None)], pa.timestamp("us"))
    assert written(local) == [b'"2023-11-14T22:13:20.123456"']
    assert written(pa.array([dt.time(1, 2, 3, 4)], pa.time64("ns"))) == [b'"01:02:03.000004000"']


def test_what_does_not_fit_names_its_field() -> None:
    """Bytes that are not UTF-8, and years that ISO 8601 has no form for: the other rows are written."""
    words = pa.array([b"a", b"\xff", b"\xed\xa0\x80", b"\xe2\x82", b"b"], pa.binary()).cast(
        pa.string(), safe=False
    )
    rows = pa.StructArray.from_arrays([words], ["word"])
    done = encode(json_form(rows.type), rows)
    assert done.values.to_pylist() == [b'{"word":"a"}', None, None, None, b'{"word":"b"}']
    assert done.unfit == dict.fromkeys([1, 2, 3], "word has bytes that are not UTF-8")
    days = pa.array([-719_529, -719_528, 2_932_896, 2_932_897], pa.int32()).cast(pa.date32())
    done = encode(json_form(days.type, "day"), days)
    assert done.values.to_pylist() == [None, b'"0000-01-01"', b'"9999-12-31"', None]
    assert done.unfit == {0: "day is out of range", 3: "day is out of range"}


@pytest.mark.parametrize("before", [0, 3])
def test_people_read_every_row(before: int) -> None:
    """Also rows that JSON has no form for: bytes that are not UTF-8 are escaped, and times are numbers."""
    texts = as_text([b"a\xff\xe2\x82b\n", "é".encode(), None])
    moments = pa.array([1 << 62, -(1 << 63), 0]).cast(pa.timestamp("us", "UTC"))
    days = pa.array([1 << 30, -(1 << 31), 0], pa.int32()).cast(pa.date32())
    array = pa.StructArray.from_arrays([texts, moments, moments.cast(pa.timestamp("us")), days], list("tmld"))
    array = pa.concat_arrays([*[array.slice(2, 1)] * before, array]).slice(before)
    done = encode(told_form(array.type), array)
    assert done.unfit == {}
    assert [json.loads(each or b"") for each in done.values.to_pylist()] == [
        {"t": "a\\xff\\xe2\\x82b\n", "m": str(1 << 62), "l": str(1 << 62), "d": str(1 << 30)},
        {"t": "é", "m": str(-(1 << 63)), "l": str(-(1 << 63)), "d": str(-(1 << 31))},
        {"t": None, "m": "1970-01-01T00:00:00.000000Z", "l": "1970-01-01T00:00:00.000000", "d": "1970-01-01"},
    ]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (pa.duration("us"), "f0: JSON has no form for duration"),
        (pa.map_(pa.list_(pa.int8()), pa.int8()), "f0: the keys of a map must be no list"),
        (pa.list_(pa.struct([("x", pa.month_day_nano_interval())])), r"f0\.x: JSON has no form"),
    ],
)
def test_types_without_a_form(kind: Any, words: str) -> None:
    """The error names the column, or the field in it."""
    with pytest.raises(UnfitError, match=words):
        json_form(struct([Kind(kind, st.none(), "null")]).arrow)

"""Rows as Protobuf, read back by Google's library."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, message_factory, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from hypothesis import given
from hypothesis import strategies as st

from aioproducer._formats.encoding import encode
from aioproducer._formats.forms import UnfitError
from aioproducer._formats.protobuf_form import protobuf_form
from tests.formats.rows import TEXT

FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS: dict[str, tuple[int, Any, st.SearchStrategy[Any]]] = {
    "i32": (FIELD.TYPE_INT32, pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    "i64": (FIELD.TYPE_INT64, pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "u32": (FIELD.TYPE_UINT32, pa.int64(), st.integers(0, (1 << 32) - 1)),
    "u64": (FIELD.TYPE_UINT64, pa.int64(), st.integers(0, (1 << 63) - 1)),
    "s32": (FIELD.TYPE_SINT32, pa.int16(), st.integers(-(1 << 15), (1 << 15) - 1)),
    "s64": (FIELD.TYPE_SINT64, pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "x32": (FIELD.TYPE_SFIXED32, pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    "x64": (FIELD.TYPE_SFIXED64, pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    "d": (FIELD.TYPE_DOUBLE, pa.float64(), st.floats(allow_nan=False)),
    "f": (FIELD.TYPE_FLOAT, pa.float32(), st.floats(allow_nan=False, width=32)),
    "b": (FIELD.TYPE_BOOL, pa.bool_(), st.booleans()),
    "t": (FIELD.TYPE_STRING, pa.string(), TEXT),
    "y": (FIELD.TYPE_BYTES, pa.binary(), st.binary(max_size=5)),
}


def _file() -> Any:
    """A message with a field of each scalar, alone and repeated, and of everything else."""
    file = descriptor_pb2.FileDescriptorProto(name="rows.proto", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="n", number=1, type=FIELD.TYPE_INT32, label=FIELD.LABEL_OPTIONAL)
    kinds = file.enum_type.add(name="Kind")
    kinds.value.add(name="NONE", number=0)
    kinds.value.add(name="SOME", number=-5)
    row = file.message_type.add(name="Row")
    for at, (name, (kind, _, _)) in enumerate(SCALARS.items(), 1):
        row.field.add(name=name, number=at, type=kind, label=FIELD.LABEL_OPTIONAL)
        row.field.add(name=f"{name}s", number=100 + at, type=kind, label=FIELD.LABEL_REPEATED)
    entry = row.nested_type.add(name="MEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=FIELD.TYPE_INT64, label=FIELD.LABEL_OPTIONAL)
    message = FIELD.TYPE_MESSAGE
    row.field.add(name="inner", number=50, type=message, type_name=".shop.Inner", label=FIELD.LABEL_OPTIONAL)
    row.field.add(name="inners", number=51, type=message, type_name=".shop.Inner", label=FIELD.LABEL_REPEATED)
    row.field.add(name="m", number=52, type=message, type_name=".shop.Row.MEntry", label=FIELD.LABEL_REPEATED)
    row.field.add(
        name="kind", number=53, type=FIELD.TYPE_ENUM, type_name=".shop.Kind", label=FIELD.LABEL_OPTIONAL
    )
    row.field.add(
        name="at", number=54, type=message, type_name=".google.protobuf.Timestamp", label=FIELD.LABEL_OPTIONAL
    )
    row.field.add(
        name="w", number=55, type=message, type_name=".google.protobuf.Int64Value", label=FIELD.LABEL_OPTIONAL
    )
    return file


def _message() -> Any:
    pool: Any = DescriptorPool()
    for each in (timestamp_pb2, wrappers_pb2):
        known: Any = each
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(_file().SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Row"))


ROW: Any = _message()
TYPES = {
    **{name: kind for name, (_, kind, _) in SCALARS.items()},
    **{f"{name}s": pa.list_(kind) for name, (_, kind, _) in SCALARS.items()},
    "inner": pa.struct([("n", pa.int32())]),
    "inners": pa.list_(pa.struct([("n", pa.int32())])),
    "m": pa.map_(pa.string(), pa.int64()),
}
INNER = st.fixed_dictionaries({"n": st.integers(-9, 9)})
ITEMS = {
    **{name: items for name, (_, _, items) in SCALARS.items()},
    **{f"{name}s": st.lists(items, max_size=3) for name, (_, _, items) in SCALARS.items()},
    "inner": INNER,
    "inners": st.lists(INNER, max_size=3),
    "m": st.dictionaries(TEXT, st.integers(-9, 9), max_size=3),
}


def rows_of(rows: list[dict[str, Any]], types: dict[str, Any]) -> Any:
    """An Arrow array of these rows."""
    plain = [
        {name: list(item.items()) if name == "m" and item is not None else item for name, item in row.items()}
        for row in rows
    ]
    return pa.array(plain, pa.struct(list(types.items())))


@given(
    st.lists(
        st.fixed_dictionaries({name: st.none() | each for name, each in ITEMS.items()}),
        min_size=1,
        max_size=3,
    )
)
def test_any_row_is_read_as_it_was(rows: list[dict[str, Any]]) -> None:
    """Fields of every type, alone, repeated, in messages and maps; a null is a field that is not set."""
    array = rows_of(rows, TYPES)
    done = encode(protobuf_form(array.type, ROW.DESCRIPTOR), array)
    assert done.unfit == {}
    for row, data in zip(rows, done.values.to_pylist(), strict=True):
        expected = ROW(**{name: item for name, item in row.items() if item is not None})
        assert ROW.FromString(data) == expected


def test_enums_moments_and_wrappers() -> None:
    """Symbols, timestamps with their nanoseconds, and numbers in messages."""
    moments = [
        dt.datetime(2023, 1, 1, 0, 0, 0, 5, tzinfo=dt.UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=dt.UTC),
    ]
    types = {"kind": pa.string(), "at": pa.timestamp("us", "UTC"), "w": pa.int64()}
    array = rows_of(
        [{"kind": "SOME", "at": moments[0], "w": 0}, {"kind": None, "at": moments[1], "w": None}], types
    )
    done = encode(protobuf_form(array.type, ROW.DESCRIPTOR), array)
    first, second = map(ROW.FromString, done.values.to_pylist())
    assert (first.kind, first.at.ToDatetime(dt.UTC), first.w.value, first.HasField("w")) == (
        -5,
        moments[0],
        0,
        True,
    )
    assert (second.at.ToDatetime(dt.UTC), second.HasField("w")) == (moments[1], False)
    array = rows_of([{"kind": "OTHER"}, {"kind": "NONE"}], {"kind": pa.string()})
    done = encode(protobuf_form(array.type, ROW.DESCRIPTOR), array)
    assert done.unfit == {0: "kind is out of range"}


@pytest.mark.parametrize(
    ("types", "row", "words"),
    [
        ({"u32": pa.int64()}, {"u32": -1}, "u32 is out of range"),
        ({"i32": pa.int64()}, {"i32": 1 << 31}, "i32 is out of range"),
        ({"i32s": pa.list_(pa.int32())}, {"i32s": [1, None]}, "i32s is null"),
        ({"at": pa.timestamp("us", "UTC")}, {"at": 253_402_300_800_000_000}, "at is out of range"),
        ({"at": pa.timestamp("us", "UTC")}, {"at": -62_135_596_800_000_001}, "at is out of range"),
        ({"inners": TYPES["inners"]}, {"inners": [None]}, "inners is null"),
    ],
)
def test_rows_that_do_not_fit(types: dict[str, Any], row: dict[str, Any], words: str) -> None:
    """The error names the field."""
    array = rows_of([row], types)
    done = encode(protobuf_form(array.type, ROW.DESCRIPTOR), array)
    assert (done.unfit, done.values.to_pylist()) == ({0: words}, [None])


def test_the_first_and_the_last_moment() -> None:
    """Of the years that Protobuf has a timestamp for."""
    array = rows_of(
        [{"at": -62_135_596_800_000_000}, {"at": 253_402_300_799_999_999}], {"at": pa.timestamp("us", "UTC")}
    )
    done = encode(protobuf_form(array.type, ROW.DESCRIPTOR), array)
    found = [ROW.FromString(data).at.ToJsonString() for data in done.values.to_pylist()]
    assert found == ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"]


def test_an_equal_name_comes_before_one_that_differs_in_case() -> None:
    """Names of fields differ in case at times."""
    file = descriptor_pb2.FileDescriptorProto(name="case.proto", syntax="proto3")
    message = file.message_type.add(name="Case")
    for number, name in enumerate(("id", "ID"), 1):
        message.field.add(name=name, number=number, type=FIELD.TYPE_INT64, label=FIELD.LABEL_OPTIONAL)
    pool: Any = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    descriptor = pool.FindMessageTypeByName("Case")
    for names, data in ((["id"], b"\x08\x01"), (["ID"], b"\x10\x01"), (["ID", "id"], b"\x10\x01\x08\x02")):
        array = pa.StructArray.from_arrays([pa.array([at + 1]) for at in range(len(names))], names)
        assert encode(protobuf_form(array.type, descriptor), array).values.to_pylist() == [data]


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ({"unknown": pa.int32()}, "unknown: the message shop.Row has no such field"),
        ({"i32": pa.string()}, "i32: a column of string does not fit int32"),
        ({"i32s": pa.int32()}, "i32s: a column of int32 does not fit the repeated field"),
        ({"m": pa.list_(pa.int32())}, "m: a column of list"),
        ({"inner": pa.int32()}, "inner: a column of int32 does not fit the message shop.Inner"),
        ({"inner": pa.struct([("x", pa.int32())])}, r"inner\.x: the message shop.Inner has no such field"),
        ({"at": pa.timestamp("us")}, "at: a column of timestamp"),
    ],
)
def test_columns_that_do_not_fit(types: dict[str, Any], words: str) -> None:
    """The error names each column."""
    with pytest.raises(UnfitError, match=words):
        protobuf_form(pa.struct(list(types.items())), ROW.DESCRIPTOR)

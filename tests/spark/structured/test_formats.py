"""The options of structured rows, and the columns that they take: checked on the driver, with one clear error."""

from __future__ import annotations

import pickle
from traceback import walk_tb
from typing import Any

import pytest
from pyspark.sql import types
from pyspark.sql.types import StructType

from aioproducer import ConfigurationError
from aioproducer.spark.formats import Format
from aioproducer.spark.options import read_options
from aioproducer.spark.schemas import layout_of
from aioproducer.spark.shipping.columns import Layout

SERVER = {"kafka.bootstrap.servers": "localhost:9092"}
JSON = {**SERVER, "topic": "t", "valueFormat": "json"}
REGISTRY = {"registry.url": "http://localhost:1"}
CANARY = "canary-99ab"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"valueFormat": "xml"}, r"valueFormat='xml': must be json, avro, protobuf"),
        ({"valueFormat": "avro"}, "avro needs a registry: set registry.url"),
        ({"valueFormat": "avro", "schema.id": "7"}, "avro needs a registry"),
        ({"valueFormat": "json", "schema.id": "7"}, "schema.id: set registry.url"),
        ({"valueFormat": "avro", **REGISTRY, "schema.id": "-7"}, "schema.id: must be the id"),
        ({"keyColumns": "a"}, "keyColumns: set keyFormat"),
        ({"valueFormat": "json", "keyColumns": "a"}, "keyColumns: set keyFormat"),
        ({"valueFormat": "json", "keyFormat": "json", "keyColumns": " , "}, "names of columns"),
        ({"valueFormat": "json", "keyFormat": "json", "keyColumns": "a,b,A"}, "keyColumns: names 'a' twice"),
        ({"subject": "s"}, "subject: set valueFormat or keyFormat"),
        ({"valueFormat": "json", "key.subject": "s"}, "key.subject: set keyFormat"),
        ({"valueFormat": "json", "ignoreNullFields": "no"}, "ignoreNullFields='no': must be true or false"),
        ({"valueFormat": "json", "protobuf.message": "a.B"}, "are for protobuf, not for json"),
        ({"valueFormat": "protobuf", **REGISTRY, "protobuf.descriptors": "/x"}, "set protobuf.message"),
        ({"valueFormt": "json"}, "did you mean 'valueFormat'"),
        *(
            ({"valueFormat": "avro", "registry.url": url}, "registry.url has credentials")
            for url in (
                f"http://u:{CANARY}@host",
                f"http://a,http://u:{CANARY}@b",
                f"http://u:a/{CANARY}@host",
                f"http://u:a,{CANARY}@host",
                f"u:{CANARY}@host",
            )
        ),
        *(
            (
                {"valueFormat": "avro", **REGISTRY, "registry.token": token},
                "registry.token: must be a reference",
            )
            for token in (f"${{{CANARY}", f"${{env:A}}{CANARY}", f"{CANARY}${{env:A}}", "${}")
        ),
        (
            {"valueFormat": "avro", **REGISTRY, "registry.token": CANARY},
            "registry.token: must be a reference",
        ),
        ({"valueFormat": "avro", **REGISTRY, "registry.username": "u"}, "set both"),
        (
            {"valueFormat": "avro", **REGISTRY, "registry.username": "u", "registry.password": CANARY},
            "registry.password: must be a reference",
        ),
    ],
)
def test_what_is_wrong(given: dict[str, str], words: str) -> None:
    """Each error has an advice, and no secret."""
    with pytest.raises(ConfigurationError, match=words) as caught:
        read_options(SERVER | {"topic": "t"} | given)
    assert CANARY not in str(caught.value)
    # Spark can be set to print the locals of all frames.
    here = caught.value.__traceback__
    for frame, _ in walk_tb(here and here.tb_next):
        assert CANARY not in repr(frame.f_locals)


def test_a_schema_without_a_subject() -> None:
    """The usual subject has the name of the topic, which is no option here."""
    given = SERVER | REGISTRY | {"valueFormat": "avro", "keyFormat": "avro", "keyColumns": "a"}
    with pytest.raises(ConfigurationError, match=r"; key\.subject or key\.schema\.id: set one of them"):
        read_options(given)
    read_options(given | {"subject": "s", "key.schema.id": "5"})


def test_names_are_read_without_regard_to_case() -> None:
    """Spark makes them lower case; names of columns and words keep theirs."""
    given = JSON | {"valueformat": "JSON", "KEYFORMAT": "Json", "keycolumns": "Id, Name"}
    del given["valueFormat"]
    structure = read_options(given).structure
    assert structure is not None
    assert (structure.value, structure.key, structure.key_columns) == (
        structure.value,
        structure.value,
        ("Id", "Name"),
    )
    assert structure.value is not None
    assert structure.value.format is Format.JSON
    assert pickle.loads(pickle.dumps(read_options(given))) == read_options(given)


def layout(columns: str, **options: str) -> Layout:
    """The layout of a DataFrame with these columns, such as "a int, b string"."""
    return layout_of(schema(columns), read_options(JSON | options), is_stream=False)


def schema(columns: str) -> StructType:
    """Types by their simple names; `s` is a struct, and `calendar` has no type in Arrow."""
    simple: dict[str, Any] = {
        "int": types.IntegerType(),
        "string": types.StringType(),
        "s": StructType([types.StructField("a", types.IntegerType())]),
        "ts": types.TimestampType(),
        "interval": types.DayTimeIntervalType(),
        "calendar": types.CalendarIntervalType(),
    }
    pairs = [column.split() for column in columns.split(", ")]
    return StructType([types.StructField(name, simple[kind]) for name, kind in pairs])


def parts(found: Layout) -> dict[str, tuple[tuple[int, ...], bool]]:
    """The columns of each part, and whether one of them is the part itself."""
    assert found.rows is not None
    return {part.part: (part.columns, part.is_whole) for part in found.rows.parts}


def test_the_columns_of_the_value() -> None:
    """All columns but the reserved ones; a single struct `value` is the value itself."""
    assert parts(layout("a int, KEY string, topic int, b string, headers int", includeHeaders="false")) == {
        "value": ((0, 3), False)
    }
    assert parts(layout("key string, Value s")) == {"value": ((1,), True)}
    assert parts(layout("value s, a int")) == {"value": ((0, 1), False)}
    assert parts(layout("value int")) == {"value": ((0,), False)}


def test_the_columns_of_the_key() -> None:
    """The column `key` as it is, or named columns, which stay in the value; beside a struct `value` they do not."""
    assert parts(layout("key int, a int", keyFormat="json")) == {"value": ((1,), False), "key": ((0,), True)}
    assert parts(layout("a int, b int", keyFormat="json", keyColumns="B")) == {
        "value": ((0, 1), False),
        "key": ((1,), False),
    }
    assert parts(layout("value s, b int", keyFormat="json", keyColumns="b")) == {
        "value": ((0,), True),
        "key": ((1,), False),
    }


def test_the_key_alone() -> None:
    """The value may have its bytes already."""
    options = read_options(SERVER | {"topic": "t", "keyFormat": "json"})
    found = layout_of(schema("key int, value string, other int"), options, is_stream=False)
    assert found.places == {"key": 0, "value": 1}


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("a int, partition string", {}, "column 'partition' must be int, not string"),
        ("a interval", {}, "column a: the type interval day to second is not supported"),
        ("a int, b calendar", {}, "column b: the type interval is not supported; cast"),
        ("a int, A string", {}, "several columns are named 'a'"),
        ("key string", {}, "no column is left for the value"),
        ("a int", {"keyFormat": "json"}, "keyFormat needs a column 'key'"),
        ("a int, key int", {"keyFormat": "json", "keyColumns": "a"}, "both are the key"),
        ("amount int", {"keyFormat": "json", "keyColumns": "amuont"}, "did you mean 'amount'"),
        ("a int, key int", {}, "'key' must be string or binary"),
    ],
)
def test_wrong_columns(columns: str, options: dict[str, str], words: str) -> None:
    """The error names the column."""
    with pytest.raises(ConfigurationError, match=words):
        layout(columns, **options)

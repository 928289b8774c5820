"""Unions in Avro: a value that is written with one of several types is read as it was, or as a type alone would have it."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import gc
import io
import json
import sys
import uuid
from collections import deque
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioproducer.registry import AvroSerializer, Registry, Schema
from aioproducer.registry.formats.avro_losses import Places
from aioproducer.testing import EmbeddedRegistry
from tests.registry.test_avro import read_by_fastavro, written

UTC = datetime.UTC
FIVE = datetime.timezone(datetime.timedelta(hours=5))
DATE = {"type": "int", "logicalType": "date"}
CLOCK_MILLIS = {"type": "int", "logicalType": "time-millis"}
CLOCK = {"type": "long", "logicalType": "time-micros"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
UUID = {"type": "string", "logicalType": "uuid"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
FIXED = {"type": "fixed", "name": "F", "size": 4}
FIXED_DECIMAL = {**FIXED, "logicalType": "decimal", "precision": 9, "scale": 2}
ENUM = {"type": "enum", "name": "E", "symbols": ["red", "green"]}


def record(name: str, /, **fields: Any) -> Any:
    """A schema of records."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": key, "type": kind} for key, kind in fields.items()],
    }


def array(items: Any) -> Any:
    """A schema of arrays."""
    return {"type": "array", "items": items}


def table(values: Any) -> Any:
    """A schema of maps."""
    return {"type": "map", "values": values}


CAT = record("Cat", born=DATE, weight="float")
DOG = record("Dog", born=MILLIS, name=["null", "string"])
OWL = record("Owl", at=["null", "int"])

# The types of a union differ, but for records: one of each line.
KINDS: list[list[Any]] = [
    ["null"],
    ["boolean"],
    ["int", DATE, CLOCK_MILLIS],
    ["long", CLOCK, MILLIS, LOCAL],
    ["float"],
    ["double"],
    ["bytes", DECIMAL],
    ["string", UUID],
    [FIXED, FIXED_DECIMAL],
    [ENUM],
    [array(each) for each in ("int", "string", DATE, "float", ["null", "int", "string"])],
    [table(each) for each in ("long", "float", DATE, "boolean")],
    [CAT],
    [DOG],
    [OWL],
]
UNIONS = st.lists(
    st.sampled_from(range(len(KINDS))).flatmap(
        lambda row: st.sampled_from(KINDS[row]).map(lambda kind: (row, kind))
    ),
    min_size=2,
    max_size=6,
    unique_by=lambda drawn: drawn[0],
).map(lambda drawn: [kind for _, kind in drawn])
MORNING = datetime.datetime(2026, 1, 2, 9, 30, 0, 123456, tzinfo=UTC).replace(tzinfo=None)
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**24 + 1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**39, 10**400]),
    st.floats(allow_nan=False),
    st.sampled_from([1e39, -1e39, 0.1, 3.7, 2.0]),
    st.sampled_from(["", "red", "2026-01-02", str(uuid.UUID(int=5)), "x"]),
    st.binary(max_size=4),
    st.binary(max_size=4).map(bytearray),
    st.just(memoryview(b"abcdefgh")[::2]),
    st.sampled_from([decimal.Decimal(each) for each in ("-0.00", "1E+5", "0.001", "NaN", "Infinity", "3.7")]),
    st.decimals(-1000, 1000, places=2),
    st.dates(),
    st.sampled_from([MORNING, MORNING.replace(tzinfo=UTC), MORNING.replace(tzinfo=FIVE)]),
    st.just(datetime.datetime(2026, 1, 2, tzinfo=UTC)),
    st.times(),
    st.just(datetime.time(9, 30, tzinfo=FIVE)),
    st.uuids(),
)
VALUES = st.one_of(
    ATOMS,
    st.lists(ATOMS, max_size=2),
    st.dictionaries(st.sampled_from(["a", "at", "born", "weight", "name"]), ATOMS, max_size=3),
    st.fixed_dictionaries({"born": st.dates() | ATOMS, "weight": st.floats(width=32) | ATOMS}),
    st.fixed_dictionaries(
        {"born": st.just(MORNING.replace(tzinfo=UTC)) | ATOMS, "name": st.text(max_size=2)}
    ),
)


class _Types:
    """Serializers of fields, by their types."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known: dict[str, AvroSerializer[Any]] = {}

    async def read(self, kind: Any, value: Any) -> list[Any]:
        """The value that readers get with this type; none if it is refused."""
        schema, text = record("R", f=kind), json.dumps(kind)
        serializer = self._known.get(text)
        if serializer is None:
            # Without defaults: a record that is written has no others.
            serializer = AvroSerializer(self._registry, schema, strict=True, subject=lambda *_: text)
            self._known[text] = serializer
            await serializer.warm("t")
        try:
            made = serializer.serialize("t", None, {"f": value})
        except (ArithmeticError, AttributeError, TypeError, ValueError):
            return []
        assert isinstance(made, bytes)
        try:
            return [each["f"] for each in read_by_fastavro(schema, [made])]
        except (OverflowError, ValueError):
            # A number that Python's calendar has no day for. The words of each Python are its own.
            assert "logicalType" in text
            return ["no such date"]


def _is_same(read: Any, value: Any) -> bool:
    """Equal, where 1 is not True, a float may have 32 bits, and a moment the milliseconds of its type."""
    if isinstance(read, bool) is not isinstance(value, bool):
        return False
    if isinstance(value, dict):
        return (
            isinstance(read, dict)
            and read.keys() == value.keys()
            and all(_is_same(read[key], value[key]) for key in value)
        )
    if isinstance(value, list):
        return isinstance(read, list) and len(read) == len(value) and all(map(_is_same, read, value))
    if isinstance(value, float):
        return isinstance(read, float | int) and read in (value, _rounded("float", value))
    if isinstance(value, datetime.datetime) and isinstance(read, datetime.datetime):
        moment = value.astimezone(UTC) if read.tzinfo is not None else value
        return read in (moment, moment.replace(microsecond=moment.microsecond // 1000 * 1000))
    return bool(read == value)


def _rounded(kind: str, value: Any) -> Any:
    data = io.BytesIO()
    fastavro.schemaless_writer(data, kind, value)
    data.seek(0)
    return fastavro.schemaless_reader(data, kind, None)


@given(st.lists(st.tuples(UNIONS, st.lists(VALUES, min_size=5, max_size=15)), min_size=3, max_size=6))
@settings(max_examples=30, deadline=None)
def test_a_value_is_held_or_refused(cases: list[tuple[list[Any], list[Any]]]) -> None:
    """If a type of the union holds a value, it is read as it was. Otherwise it is read as one of the types alone reads it."""

    async def main() -> None:
        async with EmbeddedRegistry() as server, Registry(server.url) as registry:
            types = _Types(registry)
            for union, values in cases:
                for value in values:
                    for read in await types.read(union, value):
                        alone = [one for kind in union for one in await types.read(kind, value)]
                        is_held = any(_is_same(one, value) for one in alone)
                        assert _is_same(read, value) if is_held else read in alone, (union, value, read)

    asyncio.run(main())


DAY = datetime.date(2026, 1, 2)
LETTERS = [record("Old", f="float"), record("New", f="double", g="int")]
STATUS = {"type": "enum", "name": "Status", "symbols": ["new", "paid"]}
ORDERS = [
    record("Noted", id="int", note=["null", "string"]),
    record("Paid", id="int", status=STATUS, at=["null", "int"]),
    record("Sold", id="int", sum="int"),
]
PEN, INK = record("Pen", by="int"), record("Ink", of=["null", "int"])
DEEP = [record("A", id="int", of=array(PEN)), record("B", id="int", of=["null", INK, array("Ink")])]
CARDS = [record("Card", id="string", pan="string"), record("Iban", id="string", iban="string", bic="string")]
TEXTS = [
    record("Said", id="string", by=["null", "string"]),
    record("Sent", id="string", status=["null", STATUS]),
]
WRONG: list[tuple[Any, Any, str]] = [
    (["null", "float", "string"], 1e39, "32 bits"),
    (["null", "float", "int"], 2**24 + 1, r"the type float .* int holds it: .* \('int', ...\)"),
    (["double", "long"], 2**53 + 1, r"\('long', ...\)"),
    (["null", "float", "string"], 10**39, "32 bits"),
    (["null", DATE, "string"], MORNING, "has a time"),
    (
        ["null", DATE, MILLIS],
        datetime.datetime(2026, 1, 2, tzinfo=UTC),
        r"long-timestamp-millis holds it: .* \('long', ...\)",
    ),
    (["null", DATE, "string"], "2026-01-02", r"\('string', ...\)"),
    (["null", DATE, "string"], "x", "a tuple of the name and the value chooses a type"),
    (["null", DATE, "long"], 5, r"\('long', ...\)"),
    (["null", MILLIS, "int"], 5, r"\('int', ...\)"),
    (["null", CLOCK, "int"], 86_400_000_000, "a time is a number from 0 to"),
    (["null", CLOCK_MILLIS, CLOCK], datetime.time(9, 0, 0, 1), r"\('long', ...\)"),
    (["null", CLOCK, "string"], datetime.time(9, tzinfo=UTC), "zone"),
    (["null", LOCAL, "string"], datetime.datetime(2026, 1, 2, tzinfo=UTC), "zone"),
    (["null", UUID, "int"], "x", "on field f"),
    (["null", UUID, ENUM], "red", r"\('E', ...\)"),
    (["null", DECIMAL, FIXED], b"abcd", r"\('F', ...\)"),
    (["null", DECIMAL, "string"], decimal.Decimal("NaN"), "finite"),
    (["null", DECIMAL, "string"], decimal.Decimal("1E+5"), "4 digits before the point"),
    (["null", FIXED_DECIMAL, "string"], decimal.Decimal("-0.00"), "no -0"),
    (["null", array("int"), "bytes"], b"abc", "a list is required"),
    (["null", array("int"), "string"], ("array", [1.5]), "an integer"),
    (["null", DATE, "string"], ("int", MORNING), "has a time"),
    (["null", array(DATE), "string"], [MORNING], "has a time"),
    (["null", table("float"), "string"], {"a": 1e39}, "32 bits"),
    (["null", CAT, OWL], {"born": MORNING, "weight": 1.0}, "on field born"),
    (LETTERS, {"f": 1e39}, "on field f"),
    (["null", OWL, record("Hen", by=["null", "int"])], {"of": 5}, "no record of the union has a field"),
    (
        ORDERS,
        {"id": 1, "status": "gone"},
        r"Noted would leave out .* if Paid\.status has its type: give .*, \('Paid', ...\)",
    ),
    (ORDERS, {"id": 1, "at": 3.0}, r"Noted would leave out .* if it has status: give .*, \('Paid', ...\)"),
    (ORDERS, {"id": 1, "sum": 3.0}, r"if Sold\.sum has its type: give .*, \('Sold', ...\)"),
    (
        ["null", ORDERS[0], record("Gone", id="int", why=["null", "string"], by=["null", "string"])],
        {"id": 1, "note": "x", "why": None, "by": None},
        r"Gone would leave out .*, \('Noted', ...\)",
    ),
    (DEEP, {"id": 1, "of": [{"by": 3.0}]}, r"B would leave out .*, \('A', ...\)"),
    (DEEP, {"id": 1, "of": ({"by": 3.0},)}, r"B would leave out .*, \('A', ...\)"),
    (DEEP, {"id": 1, "of": [{"by": 3.0, "kind": "Pen"}]}, r"B would leave out .*, \('A', ...\)"),
    ([table(INK), record("Jar", a=PEN)], {"a": {"by": 2}}, r"map would leave out .*, \('Jar', ...\)"),
    (
        ["null", OWL, table("int")],
        {"at": 5, "in": "x"},
        r"Owl would leave out .*, \('map', ...\), or \('Owl', ...\)",
    ),
    ([table("string"), TEXTS[0]], {"id": "x", "at": 3.0}, r"would leave out .*, \('map', ...\)"),
]


@pytest.mark.parametrize(("union", "value", "words"), WRONG, ids=str)
async def test_what_no_type_holds(union: Any, value: Any, words: str, embedded: EmbeddedRegistry) -> None:
    """It is refused, with the tuple that holds it if there is one. `words` are the library's own: others may change."""
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, record("R", f=union))
        await serializer.warm("t")
        with pytest.raises((TypeError, ValueError), match=words):
            serializer.serialize("t", None, {"f": value})


TWINS = [record("First", f="int"), record("Other", f="int")]
RIGHT: list[tuple[Any, Any, Any]] = [
    (["null", "float", "string"], 1.5, 1.5),
    (["null", "float", "double"], 1e300, 1e300),
    (["null", "double", "string"], 2**53 + 1, float(2**53)),
    (["null", "int", "long", "double"], 2**40, 2**40),
    (["long", "double"], 2**70, float(2**70)),
    (["null", "float", "int"], 5, 5),
    (["null", "float", "int"], ("int", 2**24 + 1), 2**24 + 1),
    (["null", DATE, "boolean"], "2026-01-02", DAY),
    (["null", DATE, "boolean"], 5, datetime.date(1970, 1, 6)),
    (["null", DATE, MILLIS], DAY, DAY),
    (["null", DATE, "string"], ("string", "2026-01-02"), "2026-01-02"),
    (
        ["null", MILLIS, DATE],
        MORNING.replace(tzinfo=UTC),
        datetime.datetime(2026, 1, 2, 9, 30, 0, 123000, tzinfo=UTC),
    ),
    (["null", MILLIS, DATE], DAY, DAY),
    (["null", CLOCK_MILLIS, CLOCK], datetime.time(9), datetime.time(9)),
    (["null", UUID, "int"], str(uuid.UUID(int=5)), uuid.UUID(int=5)),
    (["null", UUID, ENUM], ("E", "red"), "red"),
    (["null", ENUM, "string"], "red", "red"),
    (["null", ENUM, "string"], "x", "x"),
    (["null", DECIMAL, FIXED], ("F", b"abcd"), b"abcd"),
    (["null", DECIMAL, "string"], decimal.Decimal("12.3"), decimal.Decimal("12.30")),
    (["null", DECIMAL, "string"], b"\1", decimal.Decimal("0.01")),
    (["null", "bytes", array("int")], b"abc", b"abc"),
    (["null", array("int"), "string"], range(3), [0, 1, 2]),
    (["null", CAT, OWL], {"born": DAY, "weight": 1.5}, {"born": DAY, "weight": 1.5}),
    (["null", CAT, OWL], {}, {"at": None}),
    (LETTERS, {"f": 1e39, "g": 1}, {"f": 1e39, "g": 1}),
    (TWINS, {"f": 1}, {"f": 1}),
    (["null", OWL, table("int")], {"at": 5, "in": 6}, {"at": 5, "in": 6}),
]


@pytest.mark.parametrize(("union", "value", "read"), RIGHT, ids=str)
async def test_what_a_type_holds(union: Any, value: Any, read: Any, embedded: EmbeddedRegistry) -> None:
    """It is written with the type that fastavro takes, or with that of the name."""
    schema = record("R", f=union)
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema)
        assert read_by_fastavro(schema, await written(serializer, {"f": value})) == [{"f": read}]


class Status(enum.Enum):
    """A value of an enum as programs have it."""

    PAID = "paid"


class Amount(enum.Enum):
    """A number as programs have it."""

    TWO = 2


@dataclasses.dataclass
class Pen:
    """A record as programs have it."""

    by: int


class Equal(enum.Enum):
    """A value of an enum that compares as the value does."""

    PAID = "paid"

    def __eq__(self, other: object) -> bool:
        return bool(self.value == getattr(other, "value", other))

    def __hash__(self) -> int:
        return hash(self.value)


LEFT_OUT: list[tuple[Any, Any, Any]] = [
    (ORDERS, {"id": 1, "status": Status.PAID}, {"id": 1, "status": "paid", "at": None}),
    (DEEP, {"id": 1, "of": [Pen(2)]}, {"id": 1, "of": [{"by": 2}]}),
    ([array("string"), INK, record("Jar", of=array("int"))], {"of": {3}}, {"of": [3]}),
    (
        [table("string"), record("R2", a=["null", "string"])],
        {"a": "x", "b": Status.PAID},
        {"a": "x", "b": "paid"},
    ),
    ([table("string"), TEXTS[0]], {"id": "x", "by": Status.PAID}, {"id": "x", "by": "paid"}),
    (TEXTS, {"id": "x", "status": Status.PAID}, {"id": "x", "status": "paid"}),
    ([table(PEN), record("R2", a=["null", INK])], {"a": Pen(2)}, {"a": {"by": 2}}),
    (DEEP, {"id": 1, "of": (Pen(2), {"by": Amount.TWO})}, {"id": 1, "of": [{"by": 2}, {"by": 2}]}),
    (DEEP, {"id": 1, "of": deque([{"by": Amount.TWO}])}, {"id": 1, "of": [{"by": 2}]}),
    (
        [record("A", of=table(array(PEN))), record("B", of=table(array(INK)))],
        {"of": {"a": ({"by": Amount.TWO},)}},
        {"of": {"a": [{"by": 2}]}},
    ),
    # A row of one table for several records.
    (CARDS, {"id": "1", "pan": "x", "iban": None, "bic": None}, {"id": "1", "pan": "x"}),
    (ORDERS, {"id": 1, "note": None, "sum": None, "status": None}, {"id": 1, "note": None}),
    (["null", OWL, record("Hen", by=["null", "int"])], {"of": None}, {"at": None}),
    (
        [record("A", of=PEN), record("B", of=record("Oil", of=["null", "int"], at=["null", "int"]))],
        {"of": {"by": 2, "of": None, "at": None}},
        {"of": {"by": 2}},
    ),
    # With a name of a record or a type, and with keys that no record has.
    (ORDERS, ("Noted", {"id": 1, "status": "gone"}), {"id": 1, "note": None}),
    (ORDERS, {"-type": "Noted", "id": 1, "status": "gone"}, {"id": 1, "note": None}),
    (ORDERS, {"id": 1, "note": "x", "kind": "Noted"}, {"id": 1, "note": "x"}),
    (DEEP, {"id": 1, "of": [{"by": 2, "kind": "Pen"}]}, {"id": 1, "of": [{"by": 2}]}),
    (ORDERS, {"id": 1, "sum": 5, "kind": {"of": "Sold"}}, {"id": 1, "sum": 5}),
    # A map beside it can never have its fields.
    ([table("string"), ORDERS[0]], {"id": 1, "note": "x", "kind": "Noted"}, {"id": 1, "note": "x"}),
    ([ORDERS[0], table("int")], {"id": 1, "note": None, "kind": "Noted"}, {"id": 1, "note": None}),
    # An enum that is equal to its value.
    (ORDERS, {"id": 1, "status": Equal.PAID}, {"id": 1, "status": "paid", "at": None}),
]


@pytest.mark.parametrize(("union", "value", "read"), LEFT_OUT, ids=str)
async def test_a_part_that_would_be_left_out(
    union: Any, value: Any, read: Any, embedded: EmbeddedRegistry
) -> None:
    """A mapping with an object in it does not become another record of the union, which has no place for the object."""
    schema = record("R", f=union)
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema)
        assert read_by_fastavro(schema, await written(serializer, {"f": value})) == [{"f": read}]


async def test_mappings_with_the_same_keys(embedded: EmbeddedRegistry) -> None:
    """They have the same choice of types, and not the same type: that depends on their values too."""
    union = [record("Number", at="string", id="int"), record("Text", at="int", id="string")]
    schema = record("R", f=union)
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema)
        await serializer.warm("t")
        values: list[Any] = [
            {"at": "y", "id": 5},
            {"at": 1, "id": "x"},
            {"id": "x", "at": 1},
            {"at": 1, "id": "x", "-type": "Text"},
            {"at": "y", "id": 5, "-type": "Number"},
        ]
        for value in (*values, *values):
            made = serializer.serialize("t", None, {"f": value})
            assert isinstance(made, bytes)
            (read,) = read_by_fastavro(schema, [made])
            assert read["f"] == {key: each for key, each in value.items() if key != "-type"}


EXPRESSIONS = ["null", "int", "Sum", "Product"]
PRODUCT = record("Product", op={"type": "enum", "name": "P", "symbols": ["product"]}, left=EXPRESSIONS)
SUM = record(
    "Sum", op={"type": "enum", "name": "S", "symbols": ["sum"]}, left=["null", "int", "Sum", PRODUCT]
)


async def test_records_of_unions_in_each_other(
    embedded: EmbeddedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each level is compared with both records once, however many levels there are: 2 to their number took seconds."""
    value: Any = {"op": "sum", "left": 1, "at": 7}
    read: Any = {"op": "sum", "left": 1}
    for number in range(30):
        op = "sum" if number % 2 else "product"
        value, read = {"op": op, "left": value}, {"op": op, "left": read}
    counted, lost = 0, Places.lost

    def counting(self: Places, schema: Any, data: Any) -> int:
        nonlocal counted
        counted += 1
        assert counted < 10_000
        return lost(self, schema, data)

    monkeypatch.setattr(Places, "lost", counting)
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, SUM)
        assert read_by_fastavro(SUM, await written(serializer, {"op": "sum", "left": value})) == [
            {"op": "sum", "left": read}
        ]


async def test_a_record_that_is_named_in_a_union(embedded: EmbeddedRegistry) -> None:
    """Of records that were described before, as of others, the one with the most of the fields is written."""
    schema = record("R", old=["null", LETTERS[0]], new=["null", LETTERS[1]], f=["null", "Old", "New"])
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema)
        value = {"old": None, "new": None, "f": {"f": 1e39, "g": 1}}
        assert read_by_fastavro(schema, await written(serializer, value)) == [value]
        with pytest.raises(ValueError, match="32 bits"):
            serializer.serialize("orders", None, {"old": None, "new": None, "f": {"f": 1e39}})


async def test_bytes_of_a_fixed_that_is_named(embedded: EmbeddedRegistry) -> None:
    """A type that was described before has the same rules."""
    schema = record("R", f=FIXED, g="F")
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema)
        await serializer.warm("t")
        with pytest.raises(ValueError, match="not in one piece"):
            serializer.serialize("t", None, {"f": b"abcd", "g": memoryview(b"abcdefgh")[::2]})


RAW_RECORD = {
    "type": "record",
    "name": "Raw",
    "logicalType": "raw",
    "fields": [
        {"name": "y", "type": ["null", "long"], "default": None},
        {"name": "k", "type": ["null", "string"], "default": None},
    ],
}
RAW_LONG = {"type": "long", "logicalType": "raw"}


@dataclasses.dataclass
class Pet:
    """With the name of a record that has a field more."""

    x: int


def _encode_of(union: list[Any]) -> Any:
    schema = record("R", f=union)
    serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1)
    return serializer._make(Schema(json.dumps(schema)), {}).encode(b"")


@pytest.mark.parametrize(
    ("union", "value", "words"),
    [
        (["null", "double", RAW_LONG], 2**53 + 1, "the type double of the union would change this int"),
        (["double", RAW_LONG], -(2**53) - 1, "the type double of the union would change this int"),
        ([RAW_RECORD, record("A", x="long")], {"x": 1, "y": None}, "Raw would leave out a part"),
        (["null", RAW_RECORD, "string"], {"amount": 5}, "no record of the union has a field"),
        (
            [
                record("Pet", x="long", y="long"),
                record("B", x="long", z="long"),
                table("long") | {"logicalType": "raw"},
            ],
            Pet(1),
            "the record with the name of its class, Pet",
        ),
    ],
)
def test_what_a_function_leaves_as_it_is(
    union: list[Any], value: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost, as with the types alone."""
    for base in ("long", "record", "map"):
        monkeypatch.setitem(fastavro.write.LOGICAL_WRITERS, f"{base}-raw", lambda data, schema: data)
    with pytest.raises(ValueError, match=words):
        _encode_of(union)({"f": value})


def test_a_function_that_makes_a_record_of_a_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its result is compared with the fields of its record, and its argument is not."""

    def make(data: Any, schema: Any) -> Any:
        return {"y": data["amount"]} if "amount" in data else data

    monkeypatch.setitem(fastavro.write.LOGICAL_WRITERS, "record-raw", make)
    for union in (["null", RAW_RECORD, "string"], [RAW_RECORD, table("string")]):
        made = _encode_of(union)({"f": {"amount": 5}})
        schema = fastavro.parse_schema(record("R", f=union))
        assert fastavro.schemaless_reader(io.BytesIO(made), schema, None) == {"f": {"y": 5, "k": None}}


@pytest.mark.parametrize(
    "other",
    [record("X", q="long"), table("long"), {"type": "long", "logicalType": "raw"}],
    ids=["record", "map", "custom"],
)
@pytest.mark.parametrize("levels", [None, 100_000])
def test_an_object_without_an_end(other: Any, levels: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """fastavro follows it in C for the choice of the type, until the process dies with all records that wait."""
    monkeypatch.setitem(fastavro.write.LOGICAL_WRITERS, "long-raw", lambda data, schema: data)
    schema = record("N", v="double", next=["null", "N", other])
    serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1)
    encode = serializer._make(Schema(json.dumps(schema)), {}).encode(b"")
    data: dict[str, Any] = {"v": 1.5, "next": None}
    if levels is None:
        data["next"] = data
    for _ in range(levels or 0):
        data = {"v": 1.5, "next": data}
    with pytest.raises(RecursionError):
        encode(data)
    few: dict[str, Any] = {"v": 1.5, "next": None}
    for _ in range(50):
        few = {"v": 1.5, "next": few}
    assert fastavro.schemaless_reader(io.BytesIO(encode(few)), fastavro.parse_schema(schema), None) == few


def test_keys_of_users_are_not_kept() -> None:
    """A map in a union has the user's data as its keys."""
    schema = record("R", f=[*LETTERS, {"type": "map", "values": "long"}])
    serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1)
    encode = serializer._make(Schema(json.dumps(schema)), {}).encode(b"")
    key = f"user {uuid.uuid4()}"
    count = sys.getrefcount(key)
    encode({"f": {key: 1}})
    encode({"f": {key: 1, "g": 2}})
    gc.collect()
    assert sys.getrefcount(key) == count

"""No serializer writes bytes without an error that are read as something else than what it was given."""

from __future__ import annotations

import array
import asyncio
import dataclasses
import datetime
import decimal
import fractions
import functools
import gc
import ipaddress
import json
import math
import numbers
import uuid
import weakref
from collections import UserString, deque
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple, Optional, Union

import attrs
import fastavro
import msgspec
import pydantic
import pytest
from google.protobuf import descriptor_pb2, struct_pb2, wrappers_pb2
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic.dataclasses import dataclass as pydantic_dataclass

from aioproducer.registry import (
    AvroSerializer,
    JsonSerializer,
    ProtobufSerializer,
    Reference,
    Registry,
    Schema,
)
from aioproducer.registry.formats.by_class import MOST_CLASSES, ByClass
from aioproducer.testing import EmbeddedRegistry
from tests.registry.conftest import Place
from tests.registry.messages import add_field, add_message, classes_of, new_file
from tests.registry.test_avro import read_by_confluent, read_by_fastavro, written

UTC = datetime.UTC
FIXED = {"type": "fixed", "name": "F", "size": 6}
LONGS = {"type": "array", "items": "long"}
TEXTS = {"type": "array", "items": "string"}
BOOLEANS = {"type": "map", "values": "boolean"}
DATE = {"type": "int", "logicalType": "date"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
CLOCK = {"type": "long", "logicalType": "time-micros"}
UUID = {"type": "string", "logicalType": "uuid"}
EVERY_SECOND = memoryview(b"abcdefghijkl")[::2]
MORNING = datetime.datetime(2026, 1, 2, 9, tzinfo=UTC)


def record(kind: Any, name: str = "R", **more: Any) -> Any:
    """A schema of records with one field."""
    return {"type": "record", "name": name, "fields": [{"name": "f", "type": kind, **more}]}


class Reading(float):
    """A number of a class of a library, as numpy has them."""


class Huge:
    """A finite number that a double has as infinity."""

    def __float__(self) -> float:
        return math.inf


class Whole(Huge):
    """An integer, as sympy has them: its float is no error."""


numbers.Integral.register(Whole)
# Classes of numpy that are no subclasses of Python's own.
LongDouble = type("longdouble", (Huge,), {"__module__": "numpy"})
Single = type("float32", (), {"__module__": "numpy", "__float__": lambda self: 1.5})


def _id(value: Any) -> str:
    if isinstance(value, memoryview):
        return "view"
    name = str(value)
    return type(value).__name__ if " object at " in name else name


WRONG = [
    ("boolean", None),
    ("boolean", "no"),
    ("boolean", []),
    ("boolean", 2),
    ("long", 3.7),
    ("long", decimal.Decimal("3.7")),
    ("int", 3.7),
    ("int", 2**31),
    ("int", -(2**31) - 1),
    ("float", 1e300),
    ("float", -1e300),
    ("double", "1.5"),
    ("double", b"1.5"),
    ("double", UserString("1.5")),
    ("double", decimal.Decimal("1e400")),
    ("double", decimal.Decimal("-1e400")),
    ("double", decimal.Decimal("1.8e308")),
    ("double", 10**400),
    ("double", fractions.Fraction(10**400)),
    ("double", Whole()),
    ("double", LongDouble()),
    ("float", UserString("1.5")),
    ("float", 10**400),
    ("float", "nan"),
    ("null", 5),
    ("bytes", EVERY_SECOND),
    (FIXED, EVERY_SECOND),
    (TEXTS, "abc"),
    (TEXTS, {"a": 1}),
    (LONGS, b"abc"),
    (LONGS, [1, 2.5]),
    ({"type": "array", "items": record("boolean", "Inner")}, [{"f": True}, {"f": "no"}]),
    (BOOLEANS, {"a": None}),
    (BOOLEANS, []),
    (["null", LONGS], b"abc"),
    (DATE, MORNING),
    (["null", DATE], MORNING),
    (["null", DATE, MILLIS], MORNING),
    (MILLIS, 1.5),
    (CLOCK, datetime.time(9, tzinfo=datetime.timezone(datetime.timedelta(hours=5)))),
    (UUID, "x"),
    (["null", UUID], ("string", "x")),
    (["null", "int", "string"], ("int", 3.7)),
    (["null", "boolean", "string"], ("boolean", None)),
    (["null", "int", "string"], ("null", "x")),
    (["null", record("int", "Inner"), record("long", "Other")], ("Inner", {"f": 3.7})),
]


@pytest.mark.parametrize(("kind", "value"), WRONG, ids=_id)
async def test_a_value_that_would_be_another_one(kind: Any, value: Any, embedded: EmbeddedRegistry) -> None:
    """fastavro writes None as False, 3.7 as 3, "abc" as three strings. It is refused with the name of its field."""
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, record(kind))
        await serializer.warm("t")
        for wrong in ({"f": value}, dataclasses.make_dataclass("R", ["f"])(value)):
            with pytest.raises((TypeError, ValueError), match="on field f"):
                serializer.serialize("t", None, wrong)


RIGHT = [
    ("boolean", 1, True),
    ("long", 3.0, 3),
    ("long", True, 1),
    ("long", decimal.Decimal(4), 4),
    ("int", -(2**31), -(2**31)),
    ("float", math.inf, math.inf),
    ("double", 2, 2.0),
    ("double", True, 1.0),
    ("double", decimal.Decimal("1.5"), 1.5),
    ("double", decimal.Decimal("1.7e308"), 1.7e308),
    ("double", decimal.Decimal("Infinity"), math.inf),
    ("double", fractions.Fraction(3, 2), 1.5),
    ("double", Single(), 1.5),
    ("float", Single(), 1.5),
    ("double", Reading(1.5), 1.5),
    (["null", "double"], Reading(1.5), 1.5),
    ("bytes", memoryview(b"abc"), b"abc"),
    (TEXTS, ("a", "b"), ["a", "b"]),
    (TEXTS, {"a"}, ["a"]),
    (LONGS, range(3), [0, 1, 2]),
    (["null", {"type": "array", "items": "double"}], (52.5, 13.4), [52.5, 13.4]),
    (["null", {"type": "array", "items": "double"}], (1.0, 2.0, 3.0), [1.0, 2.0, 3.0]),
    (DATE, datetime.datetime(2026, 1, 2, tzinfo=UTC), datetime.date(2026, 1, 2)),
    (DATE, 5, datetime.date(1970, 1, 6)),
    (DATE, "2026-01-02", datetime.date(2026, 1, 2)),
    (["null", DATE, MILLIS], datetime.date(2026, 1, 2), datetime.date(2026, 1, 2)),
    (["null", MILLIS, DATE], MORNING, MORNING),
    (MILLIS, 1000, datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    (CLOCK, datetime.time(9), datetime.time(9)),
    (CLOCK, 1, datetime.time(0, 0, 0, 1)),
    (UUID, str(uuid.UUID(int=5)), uuid.UUID(int=5)),
    (UUID, uuid.UUID(int=5), uuid.UUID(int=5)),
    (["null", UUID], ("string", str(uuid.UUID(int=5))), uuid.UUID(int=5)),
    (["null", "boolean"], None, None),
    ({"type": "long", "logicalType": ["unknown"]}, 5, 5),
]


@pytest.mark.parametrize(("kind", "value", "read"), RIGHT, ids=_id)
async def test_a_value_of_another_class(kind: Any, value: Any, read: Any, embedded: EmbeddedRegistry) -> None:
    """It is written if it is read as equal."""
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, record(kind))
        assert read_by_fastavro(record(kind), await written(serializer, {"f": value})) == [{"f": read}]


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
    | st.binary(max_size=6)
    | st.just(EVERY_SECOND)
    | st.dates()
    | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=4,
)
KINDS = [
    "null",
    "boolean",
    "int",
    "long",
    "bytes",
    "string",
    FIXED,
    LONGS,
    TEXTS,
    BOOLEANS,
    record("boolean", "Inner"),
    ["null", LONGS],
    ["null", "int", "string"],
    {"type": "array", "items": ["null", record("long", "Inner")]},
]


@given(st.sampled_from(KINDS), st.lists(ANYTHING, min_size=5, max_size=20))
@settings(max_examples=60, deadline=None)
def test_whatever_is_written_is_read(kind: Any, values: list[Any]) -> None:
    """Any value of any type is refused, or read as equal."""

    async def main() -> list[tuple[Any, bytes]]:
        async with EmbeddedRegistry() as server, Registry(server.url) as registry:
            serializer: AvroSerializer[Any] = AvroSerializer(registry, record(kind))
            await serializer.warm("t")
            return [(each, data) for each in values if (data := _made(serializer, {"f": each})) is not None]

    for value, data in asyncio.run(main()):
        assert read_by_fastavro(record(kind), [data]) == [{"f": _plain(value)}]


def _made(serializer: AvroSerializer[Any], data: Any) -> bytes | None:
    try:
        made = serializer.serialize("t", None, data)
    except (ArithmeticError, TypeError, ValueError, AttributeError):
        return None
    return made if isinstance(made, bytes) else None


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


# ----- records of a union

CAT = {"type": "record", "name": "Cat", "fields": [{"name": "name", "type": "string"}]}
DOG = {**CAT, "name": "Dog", "namespace": "some.space"}
HOUSE = {
    "type": "record",
    "name": "House",
    "fields": [
        {"name": "pets", "type": {"type": "array", "items": [CAT, DOG]}},
        {"name": "best", "type": ["null", "Cat", "some.space.Dog"]},
        {"name": "by", "type": {"type": "map", "values": ["Cat", "some.space.Dog"]}},
    ],
}


@dataclasses.dataclass
class Cat:
    name: str


@dataclasses.dataclass
class Dog:
    name: str


@dataclasses.dataclass
class House:
    pets: list[Any]
    best: Any
    by: dict[str, Any]


class Structs:
    class Dog(msgspec.Struct):
        name: str


class Attrs:
    @attrs.frozen
    class Dog:
        name: str


class Models:
    class Cat(pydantic.BaseModel):
        name: str

    class Dog(pydantic.BaseModel):
        name: str

    class House(pydantic.BaseModel):
        them: list[Union[Models.Cat, Models.Dog]] = pydantic.Field(alias="pets")  # noqa: UP007 - evaluated late
        best: Optional[Models.Dog]  # noqa: UP045
        by: dict[str, Union[Models.Cat, Models.Dog]]  # noqa: UP007


Models.House.model_rebuild()


class Pets(pydantic.RootModel[list[Models.Cat | Models.Dog]]):
    """A list that is a model."""


class Farm(pydantic.BaseModel):
    """A model with a list that is a model, a computed field and extra ones."""

    model_config = pydantic.ConfigDict(extra="allow")
    pets: Pets

    @pydantic.computed_field(alias="best")  # type: ignore[prop-decorator]  # as pydantic describes it
    @property
    def guard(self) -> Models.Dog:
        """The last field of the schema but one."""
        return Models.Dog(name="c")


class Shed(pydantic.BaseModel):
    """A model that says nothing about its fields."""

    pets: Any
    best: Any
    by: Any


class Shapes:
    @pydantic_dataclass
    class Dog:
        name: str


@pydantic_dataclass
class Barn:
    """A dataclass of pydantic."""

    them: Annotated[list[Models.Cat | Shapes.Dog], pydantic.Field(alias="pets")]
    best: Shapes.Dog
    by: dict[str, Models.Cat | Shapes.Dog]


HOUSES = [
    House([Dog("a"), Cat("b")], Dog("c"), {"d": Dog("e")}),
    House([Structs.Dog("a"), Models.Cat(name="b")], Attrs.Dog("c"), {"d": Models.Dog(name="e")}),
    {"pets": [Dog("a"), Cat("b")], "best": Dog("c"), "by": {"d": Dog("e")}},
    Models.House(
        pets=[Models.Dog(name="a"), Models.Cat(name="b")],
        best=Models.Dog(name="c"),
        by={"d": Models.Dog(name="e")},
    ),
    Farm.model_validate(
        {"pets": Pets([Models.Dog(name="a"), Models.Cat(name="b")]), "by": {"d": Models.Dog(name="e")}}
    ),
    Shed(pets=[Dog("a"), Models.Cat(name="b")], best=Attrs.Dog("c"), by={"d": Shapes.Dog("e")}),
    Shed(pets=deque([Dog("a"), Cat("b")]), best=Structs.Dog("c"), by={"d": Models.Dog(name="e")}),
    Barn(pets=[Shapes.Dog("a"), Models.Cat(name="b")], best=Shapes.Dog("c"), by={"d": Shapes.Dog("e")}),  # type: ignore[call-arg]
    {"pets": deque([Dog("a"), Cat("b")]), "best": Dog("c"), "by": {"d": Dog("e")}},
]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("house", HOUSES, ids=lambda each: type(each).__qualname__)
async def test_the_record_of_a_class(house: Any, strict: bool, embedded: EmbeddedRegistry) -> None:
    """Records with equal fields in a union: that with the name of the class is written, not the first one."""
    dog, cat = ("some.space.Dog", {"name": "a"}), ("Cat", {"name": "b"})
    read = {
        "pets": [dog, cat],
        "best": ("some.space.Dog", {"name": "c"}),
        "by": {"d": ("some.space.Dog", {"name": "e"})},
    }
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, HOUSE, strict=strict)
        (data,) = await written(serializer, house)
        assert _with_names(HOUSE, data) == read
        alone: AvroSerializer[Any] = AvroSerializer(
            registry, [CAT, DOG], strict=strict, subject=lambda *_: "s"
        )
        for each in (Dog("a"), Models.Dog(name="a"), Structs.Dog("a")):
            assert _with_names([CAT, DOG], (await written(alone, each))[0]) == dog


def _with_names(schema: Any, data: bytes) -> Any:
    import io

    return fastavro.schemaless_reader(io.BytesIO(data[5:]), schema, None, return_record_name=True)


def first(animals: Any) -> Any:
    """Them in the order of their names."""
    return sorted(animals, key=lambda each: each.name)


class Moved:
    """Models whose serializers move objects."""

    class Sorted(pydantic.BaseModel):
        pets: list[Models.Cat | Models.Dog]
        _first = pydantic.field_serializer("pets")(first)

    class All(pydantic.BaseModel):
        pets: list[Models.Cat | Models.Dog]
        _first = pydantic.field_serializer("*")(first)

    class Field(pydantic.BaseModel):
        pets: Annotated[list[Models.Cat | Models.Dog], pydantic.PlainSerializer(first)]

    class Inside(pydantic.BaseModel):
        by: dict[
            str, Annotated[Models.Cat | Models.Dog, pydantic.PlainSerializer(lambda _: Models.Dog(name="x"))]
        ]

    class Whole(pydantic.BaseModel):
        pets: list[Models.Cat | Models.Dog]

        @pydantic.model_serializer
        def _whole(self) -> dict[str, Any]:
            return {"pets": first(self.pets)}

    class Root(pydantic.RootModel[list[Models.Cat | Models.Dog]]):
        _first = pydantic.field_serializer("root")(first)

    class Holder(pydantic.BaseModel):
        pets: Moved.Root

    class Hidden(list[Any]):
        """A type that pydantic converts by a function, and no annotation tells that."""

        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            return {"type": "any", "serialization": {"type": "function-plain", "function": first}}

    class HiddenHolder(pydantic.BaseModel):
        pets: Moved.Hidden

    class Computed(pydantic.BaseModel):
        calls: int = pydantic.Field(default=0, exclude=True)

        @pydantic.computed_field  # type: ignore[prop-decorator]  # as pydantic describes it
        @property
        def best(self) -> Any:
            self.calls += 1
            assert self.calls < 2
            return Models.Dog(name="x")


Moved.Holder.model_rebuild()
Moved.HiddenHolder.model_rebuild()
MOVED_PETS: Any = [Models.Cat(name="c"), Models.Dog(name="a")]
MOVED = [
    Moved.Sorted(pets=MOVED_PETS),
    Moved.All(pets=MOVED_PETS),
    Moved.Field(pets=MOVED_PETS),
    Moved.Inside(by={"a": Models.Cat(name="x")}),
    Moved.Whole(pets=MOVED_PETS),
    Moved.Holder(pets=Moved.Root(MOVED_PETS)),
    Moved.HiddenHolder(pets=Moved.Hidden(MOVED_PETS)),
    Moved.Computed(),
]
FIELDS: Any = HOUSE["fields"]
OPTIONAL_HOUSE = {
    "type": "record",
    "name": "House",
    "fields": [
        {"name": "pets", "type": ["null", FIELDS[0]["type"]], "default": None},
        {**FIELDS[1], "default": None},
        {"name": "by", "type": ["null", FIELDS[2]["type"]], "default": None},
    ],
}


@pytest.mark.parametrize("moved", MOVED, ids=lambda each: type(each).__name__)
async def test_objects_that_a_serializer_of_the_program_moves(moved: Any, embedded: EmbeddedRegistry) -> None:
    """Their classes are not known: they were taken for those of the objects that were in their places."""
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, OPTIONAL_HOUSE)
        await serializer.warm("t")
        with pytest.raises(ValueError, match="pydantic does not tell its class: let the serializer"):
            serializer.serialize("t", None, moved)


class Kept(pydantic.BaseModel):
    """Its serializers say which classes the objects have, or change only atoms."""

    class Dog(pydantic.BaseModel):
        name: str

        @pydantic.field_serializer("name")
        def _lower(self, name: str) -> str:
            return name.lower()

    pets: list[Models.Cat | Models.Dog]
    by: dict[str, Models.Cat | Kept.Dog]

    @pydantic.field_serializer("pets")
    def _pets(self, pets: list[Any]) -> Any:
        return [(f"{'some.space.' * (type(each) is Models.Dog)}{type(each).__name__}", each) for each in pets]

    @pydantic.field_serializer("by", when_used="json")
    def _by(self, by: dict[str, Any]) -> Any:
        return list(by)

    @pydantic.computed_field  # type: ignore[prop-decorator]  # as pydantic describes it
    @functools.cached_property
    def best(self) -> Any:
        """A property that is computed once."""
        return Models.Dog(name="c")


async def test_classes_that_a_serializer_of_the_program_keeps(embedded: EmbeddedRegistry) -> None:
    """Names in tuples, atoms that it changes, one for JSON, and a property that is computed once."""
    kept = Kept(pets=[Models.Dog(name="a"), Models.Cat(name="b")], by={"d": Kept.Dog(name="E")})
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, HOUSE)
        (data,) = await written(serializer, kept)
        assert _with_names(HOUSE, data) == {
            "pets": [("some.space.Dog", {"name": "a"}), ("Cat", {"name": "b"})],
            "best": ("some.space.Dog", {"name": "c"}),
            "by": {"d": ("some.space.Dog", {"name": "e"})},
        }


async def test_an_object_that_does_not_fit_the_record_of_its_class(embedded: EmbeddedRegistry) -> None:
    """It is refused. It was written as another type of the union, which it fits."""
    kinds = [CAT, record("int", "Dog"), {"type": "map", "values": "double"}]
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, kinds)
        await serializer.warm("t")
        dog = dataclasses.make_dataclass("Dog", ["f"])
        with pytest.raises(ValueError, match="does not fit the record with the name of its class, Dog"):
            serializer.serialize("t", None, dog(2.5))


async def test_a_class_outside_of_unions(embedded: EmbeddedRegistry) -> None:
    """A name that only one record has in a union, and a field that takes this record alone."""
    schema = record(DOG)
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema, strict=True)
        assert read_by_fastavro(schema, await written(serializer, {"f": Dog("a")})) == [{"f": {"name": "a"}}]


# ----- schemas


async def test_references_at_the_root(place: Place, registry: Registry) -> None:
    """A union of referenced records has several kinds of events in one topic. No record was written with it."""
    cat, dog = place.subject("cat"), place.subject("dog")
    await registry.register(cat, Schema(json.dumps(CAT)))
    await registry.register(dog, Schema(json.dumps(DOG)))
    references = [Reference("Cat", cat, 1), Reference("some.space.Dog", dog, 1)]
    texts: Iterable[tuple[Any, Any]] = [
        (["Cat", "some.space.Dog"], {"-type": "some.space.Dog", "name": "a"}),
        ({"type": "array", "items": "some.space.Dog"}, [{"name": "a"}]),
        ({"type": "map", "values": ["null", "Cat"]}, {"a": {"name": "a"}, "b": None}),
    ]
    for number, (schema, obj) in enumerate(texts):
        topic = place.subject(f"pets{number}")
        serializer: AvroSerializer[Any] = AvroSerializer(
            registry, Schema(json.dumps(schema), references=references)
        )
        data = await written(serializer, obj, topic=topic)
        (read,) = await asyncio.to_thread(read_by_confluent, place.url, data)
        assert read == ({"name": "a"} if isinstance(schema, list) else obj)


async def test_a_record_with_the_name_of_a_primitive_type(embedded: EmbeddedRegistry) -> None:
    """A record that is called "bytes" is a record."""
    schema = {**record("int"), "name": "bytes"}
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema)
        assert (await written(serializer, {"f": 1}))[0][5:] == b"\2"


@pytest.mark.parametrize(
    ("kind", "default", "read"),
    [
        ("bytes", "\u00ff\u0001", b"\xff\x01"),
        ({**FIXED, "size": 2}, "\u00ff\u0001", b"\xff\x01"),
        (["bytes", "null"], "\u00ff", b"\xff"),
        ({"type": "map", "values": "bytes"}, {"a": "\u00ff"}, {"a": b"\xff"}),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "\u00ff",
            decimal.Decimal("-0.01"),
        ),
        (["null", "bytes"], None, None),
        ("int", 5, 5),
    ],
)
async def test_defaults_of_bytes(kind: Any, default: Any, read: Any, embedded: EmbeddedRegistry) -> None:
    """A field that is missing has its default. Those of bytes are text in a schema, and were refused."""
    schema = record(kind, default=default)
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema)
        assert read_by_fastavro(schema, await written(serializer, {})) == [{"f": read}]


async def test_a_record_with_itself_in_it(embedded: EmbeddedRegistry) -> None:
    """The values of each level are looked at."""
    schema = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "on", "type": "boolean"}, {"name": "next", "type": ["null", "Node"]}],
    }
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema)
        right = {"on": True, "next": {"on": False, "next": None}}
        assert read_by_fastavro(schema, await written(serializer, right)) == [right]
        with pytest.raises(TypeError, match="a boolean is required, not str on field on on field next"):
            serializer.serialize("orders", None, {"on": True, "next": {"on": "no", "next": None}})


# ----- objects


@pydantic_dataclass
class Account:
    """Its password is in no bytes."""

    account_id: int = pydantic.Field(alias="accountId")
    password: str = pydantic.Field(default="secret", exclude=True)

    @pydantic.field_serializer("account_id")
    def _plus(self, number: int) -> int:
        return number + 1000


@dataclasses.dataclass
class Grown(Account):
    """A plain dataclass of it has a field more."""

    more: int = 5


async def test_dataclasses_of_pydantic(embedded: EmbeddedRegistry) -> None:
    """They are converted by pydantic, as models are: aliases, excluded fields and serializers count."""
    schema = record("long")
    schema["fields"] = [{"name": "accountId", "type": "long", "default": 0}]
    async with Registry(embedded.url) as registry:
        avro: AvroSerializer[Any] = AvroSerializer(registry, schema, strict=True)
        json_serializer: JsonSerializer[Any] = JsonSerializer(registry, {}, subject=lambda *_: "json")
        account = Account(accountId=5)
        assert read_by_fastavro(schema, await written(avro, account)) == [{"accountId": 1005}]
        await json_serializer.warm("t")
        made = json_serializer.serialize("t", None, {"by": account})
        assert isinstance(made, bytes)
        assert json.loads(made[5:]) == {"by": {"accountId": 1005}}
        grown = json_serializer.serialize("t", None, Grown(account_id=5))  # type: ignore[call-arg]  # of a plain dataclass
        assert isinstance(grown, bytes)
        assert json.loads(grown[5:])["more"] == 5


@dataclasses.dataclass
class Hidden:
    _number: int


@pytest.mark.parametrize("validate", [False, True])
async def test_fields_with_an_underscore(validate: bool, embedded: EmbeddedRegistry) -> None:
    """orjson leaves them out of a dataclass inside of a mapping."""
    async with Registry(embedded.url) as registry:
        serializer: JsonSerializer[Any] = JsonSerializer(registry, {}, validate=validate)
        await serializer.warm("t")
        for data in (Hidden(1), {"in": Hidden(1)}, {"in": [Hidden(1)]}):
            made = serializer.serialize("t", None, data)
            assert isinstance(made, bytes)
            assert b'{"_number":1}' in made


def payments() -> Any:
    """A message with a oneof, a list, a message in it, and a map of messages."""
    field = descriptor_pb2.FieldDescriptorProto
    file = new_file("payments.proto", "p")
    message = add_message(file, "Payment")
    message.oneof_decl.add(name="how")
    for name, kind in (("card", field.TYPE_INT32), ("iban", field.TYPE_STRING)):
        add_field(message, name, kind)
        message.field[-1].oneof_index = 0
    add_field(message, "tags", field.TYPE_STRING, repeated=True)
    add_field(message, "next", field.TYPE_MESSAGE, type_name=".p.Payment")
    add_field(message, "parts", field.TYPE_MESSAGE, type_name=".p.Payment", repeated=True)
    entry = add_message(message, "ByEntry", nested=True)
    entry.options.map_entry = True
    add_field(entry, "key", field.TYPE_STRING)
    add_field(entry, "value", field.TYPE_MESSAGE, type_name=".p.Payment")
    add_field(message, "by", field.TYPE_MESSAGE, type_name=".p.Payment.ByEntry", repeated=True)
    return classes_of(file)["p.Payment"]


@dataclasses.dataclass
class Payment:
    card: int | None = 0
    iban: str | None = ""


PAYMENT = payments()


async def test_fields_of_one_oneof(embedded: EmbeddedRegistry) -> None:
    """A message keeps the last one. A card of 5 with an empty IBAN was written as an IBAN."""
    both = {"card": 5, "iban": ""}
    async with Registry(embedded.url) as registry:
        serializer: ProtobufSerializer[Any] = ProtobufSerializer(registry, PAYMENT)
        await serializer.warm("t")
        for wrong in (both, Payment(5), {"next": both}, {"parts": [{}, both]}, {"by": {"a": both}}):
            with pytest.raises(ValueError, match="card and iban are in one oneof"):
                serializer.serialize("t", None, wrong)
        for right, read in (
            (Payment(5, None), PAYMENT(card=5)),
            (
                {"next": {"card": 5}, "by": {"a": {"iban": "b"}}, "parts": [PAYMENT(card=1)]},
                PAYMENT(next=PAYMENT(card=5), by={"a": PAYMENT(iban="b")}, parts=[PAYMENT(card=1)]),
            ),
        ):
            made = serializer.serialize("t", None, right)
            assert isinstance(made, bytes)
            assert PAYMENT.FromString(made[6:]) == read


async def test_a_list_that_can_be_read_once(embedded: EmbeddedRegistry) -> None:
    """The check read the items of an object that takes them, and none were left."""

    class Drained:
        def __init__(self) -> None:
            self.left = ["a", "b"]

        def __iter__(self) -> Any:
            while self.left:
                yield self.left.pop(0)

    async with Registry(embedded.url) as registry:
        serializer: ProtobufSerializer[Any] = ProtobufSerializer(registry, PAYMENT)
        await serializer.warm("t")
        made = serializer.serialize("t", None, {"tags": Drained()})
        assert isinstance(made, bytes)
        assert PAYMENT.FromString(made[6:]) == PAYMENT(tags=["a", "b"])
        network = ipaddress.ip_network("::/0")
        with pytest.raises(TypeError, match="a list is required for the field tags"):
            serializer.serialize("t", None, {"tags": network})


@pytest.mark.parametrize("wrong", ["abc", b"abc", {"a": 1}])
async def test_text_in_place_of_a_list(wrong: Any, embedded: EmbeddedRegistry) -> None:
    """A message takes its characters, or the keys of a mapping."""
    async with Registry(embedded.url) as registry:
        serializer: ProtobufSerializer[Any] = ProtobufSerializer(registry, PAYMENT)
        await serializer.warm("t")
        for data in ({"tags": wrong}, {"parts": [{"tags": wrong}]}):
            with pytest.raises(TypeError, match="a list is required for the field tags"):
                serializer.serialize("t", None, data)


def measures() -> Any:
    """A message with numbers, flags, and types that each Protobuf has."""
    field = descriptor_pb2.FieldDescriptorProto
    file = new_file("measures.proto", "p", tuple(each.DESCRIPTOR.name for each in (struct_pb2, wrappers_pb2)))
    message = add_message(file, "Measure")
    add_field(message, "f", field.TYPE_FLOAT)
    add_field(message, "fs", field.TYPE_FLOAT, repeated=True)
    add_field(message, "d", field.TYPE_DOUBLE)
    add_field(message, "ds", field.TYPE_DOUBLE, repeated=True)
    add_field(message, "b", field.TYPE_BOOL)
    add_field(message, "n", field.TYPE_INT32, repeated=True)
    for name, kind in (
        ("list", "ListValue"),
        ("any", "Value"),
        ("free", "Struct"),
        ("wrapped", "FloatValue"),
    ):
        add_field(message, name, field.TYPE_MESSAGE, type_name=f".google.protobuf.{kind}")
    entry = add_message(message, "ByEntry", nested=True)
    entry.options.map_entry = True
    add_field(entry, "key", field.TYPE_BOOL)
    add_field(entry, "value", field.TYPE_FLOAT)
    add_field(message, "by", field.TYPE_MESSAGE, type_name=".p.Measure.ByEntry", repeated=True)
    add_field(message, "in", field.TYPE_MESSAGE, type_name=".p.Measure", repeated=True)
    return classes_of(file)["p.Measure"]


MEASURE = measures()
CHANGED = [
    {"f": 1e39},
    {"f": 10**39},
    {"f": decimal.Decimal("1e400")},
    {"fs": [1.0, -1e39]},
    {"fs": (1e39,)},
    {"fs": array.array("d", [1e39])},
    {"f": 10**400},
    {"f": UserString("1.5")},
    {"d": UserString("1.5")},
    {"d": decimal.Decimal("1e400")},
    {"ds": [1.0, decimal.Decimal("-1e400")]},
    {"d": 10**400},
    {"b": 3},
    {"b": -1},
    {"n": bytearray(b"ab")},
    {"n": memoryview(b"ab")},
    {"list": "ab"},
    {"list": b"ab"},
    {"any": {"string_value": "x", "number_value": 2.0}},
    {"any": {"bool_value": 3}},
    {"wrapped": {"value": 1e39}},
    {"by": {True: 1e39}},
    {"by": {3: 1.0}},
    {"by": [(True, 1.0)]},
    {"by": iter([(True, 1e39)])},
    {"by": "ab"},
    {"in": [{}, {"b": 3}]},
]


@pytest.mark.parametrize("wrong", CHANGED, ids=",".join)
async def test_a_field_that_would_be_another_one(wrong: Any, embedded: EmbeddedRegistry) -> None:
    """A message takes 1e39 as infinity, 3 as True, and bytes or text as a list."""
    async with Registry(embedded.url) as registry:
        serializer: ProtobufSerializer[Any] = ProtobufSerializer(registry, MEASURE)
        await serializer.warm("t")
        with pytest.raises((TypeError, ValueError), match=r"required|too large|one oneof"):
            serializer.serialize("t", None, wrong)


@pytest.mark.parametrize("entries", [{True: 1e39}, {True: "1.5"}, {3: 1.0}], ids=str)
async def test_the_field_in_an_error_of_an_entry(entries: Any, embedded: EmbeddedRegistry) -> None:
    """It is that of the map: the parts of an entry are no fields of the message."""
    async with Registry(embedded.url) as registry:
        serializer: ProtobufSerializer[Any] = ProtobufSerializer(registry, MEASURE)
        await serializer.warm("t")
        with pytest.raises((TypeError, ValueError), match=r"field by\b"):
            serializer.serialize("t", None, {"by": entries})


async def test_fields_of_other_classes(embedded: EmbeddedRegistry) -> None:
    """They are written if they are read as equal."""
    right = {
        "f": decimal.Decimal("1.5"),
        "fs": [math.inf, 3.4e38, 2],
        "d": decimal.Decimal("1e300"),
        "ds": [-math.inf, 1e300, 2, Reading(1.5)],
        "b": 1,
        "n": (1, 2),
        "list": ["ab", 1.0],
        "any": {"list_value": ["x"]},
        "free": {"f": 1e39, "b": 3.0, "any": {"string_value": "x", "number_value": 2.0}},
        "wrapped": {"value": 1.5},
        "by": {False: 1.5},
        "in": [{"b": False}],
    }
    async with Registry(embedded.url) as registry:
        serializer: ProtobufSerializer[Any] = ProtobufSerializer(registry, MEASURE)
        await serializer.warm("t")
        made = serializer.serialize("t", None, right)
        assert isinstance(made, bytes)
        assert MEASURE.FromString(made[6:]) == MEASURE(**right)


@pytest.mark.parametrize("kind", ["avro", "json", "orjson"])
def test_classes_without_end(kind: str) -> None:
    """A program may make a class for each object, as `DataFrame.itertuples()` does for each frame: few are kept."""
    if kind == "avro":
        avro: AvroSerializer[Any] = AvroSerializer("http://localhost", record("long"), schema_id=1)
        encode = avro._make(Schema(json.dumps(record("long"))), {}).encode(b"")
    else:
        text: JsonSerializer[Any] = JsonSerializer("http://localhost", {}, schema_id=1)
        encode = text._make(Schema("{}", "JSON"), {}).encode(b"")
    classes: weakref.WeakSet[type] = weakref.WeakSet()
    for _ in range(3 * MOST_CLASSES):

        class Row(NamedTuple):
            f: int

        made: Any = type("Numbers", (list,), {})([1]) if kind == "orjson" else Row(1)
        classes.add(type(made))
        assert encode({"f": made} if kind == "orjson" else made) in (b"\2", b'{"f":1}', b'{"f":[1]}')
        del made, Row
    gc.collect()
    assert len(classes) <= 2 * MOST_CLASSES
    assert encode({"f": 2}) in (b"\4", b'{"f":2}')


def test_given_classes_are_kept() -> None:
    """Those that no look at the class would find out are not forgotten."""
    given_before: dict[type, str] = {int: "given"}

    class Watched(ByClass[str]):
        missed = 0

        def clear(self) -> None:
            self.missed += 1
            super().clear()

        def pop(self, kind: Any, *default: Any) -> Any:
            self.missed += kind is int
            return super().pop(kind, *default)

    known = Watched(given_before)
    for number in range(3 * MOST_CLASSES):
        assert known.remember(type(f"Row{number}", (), {}), "found") == "found"
        assert len(known) <= MOST_CLASSES
        # Also not for a moment, in which another thread would look.
        assert known.missed == 0
    assert known[int] == "given"

"""Objects in Avro: equal when other readers read them."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import io
import ipaddress
import json
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import attrs
import fastavro
import msgspec
import pydantic
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given, settings

from aioproducer.errors import ConfigurationError
from aioproducer.registry import AvroSerializer, Reference, Registry, RegistryError, Schema
from aioproducer.serializers import Encoded, NotPrepared
from aioproducer.testing import EmbeddedRegistry
from tests.registry.conftest import Place, Readers
from tests.registry.shapes import cases

VALUE = SerializationContext("orders", MessageField.VALUE)


async def written(serializer: AvroSerializer[Any], *objects: Any, topic: str = "orders") -> list[bytes]:
    """The bytes of these objects."""
    await serializer.prepare(topic, None, objects[0])
    made = [serializer.serialize(topic, None, each) for each in objects]
    return [each for each in made if isinstance(each, bytes)]


def read_by_confluent(url: str, data: list[bytes]) -> list[Any]:
    """The objects that confluent-kafka reads."""
    with SchemaRegistryClient({"url": url}) as client:
        reader = AvroDeserializer(client)
        return [reader(each, VALUE) for each in data]


def read_by_fastavro(schema: Any, data: list[bytes]) -> list[Any]:
    """The objects that fastavro reads behind the prefix."""
    return [fastavro.schemaless_reader(io.BytesIO(each[5:]), schema, None) for each in data]


@given(cases())
@settings(max_examples=40, deadline=None)
def test_any_object_of_any_schema(readers: Readers, case: tuple[Any, list[Any]]) -> None:
    """Other clients read the written objects."""
    schema, objects = case
    topic = f"random-{uuid.uuid4().hex}"

    async def main() -> list[bytes]:
        async with Registry(readers.url) as registry:
            return await written(AvroSerializer(registry, schema), *objects, topic=topic)

    data = asyncio.run(main())
    assert read_by_fastavro(schema, data) == objects
    assert [readers.avro(each, VALUE) for each in data] == objects


PERSON = {
    "type": "record",
    "name": "Person",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["old", "new"]}},
        {
            "name": "homes",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Home", "fields": [{"name": "street", "type": "string"}]},
            },
        },
    ],
}
PLAIN = {"name": "Ada", "kind": "old", "homes": [{"street": "Elm"}, {"street": "Oak"}]}


class Kind(enum.Enum):
    """An enumeration."""

    OLD = "old"


@dataclasses.dataclass
class DataHome:
    street: str


@dataclasses.dataclass(slots=True)
class DataPerson:
    name: str
    kind: Kind
    homes: list[DataHome]


@attrs.frozen
class AttrsHome:
    street: str


@attrs.frozen
class AttrsPerson:
    name: str
    kind: Kind
    homes: tuple[AttrsHome, ...] | list[AttrsHome]


class StructHome(msgspec.Struct):
    street: str


class StructPerson(msgspec.Struct, rename={"called": "name"}):
    called: str
    kind: Kind
    homes: list[StructHome]


class ModelHome(pydantic.BaseModel):
    street: str


class ModelPerson(pydantic.BaseModel):
    name: str
    kind: Kind
    homes: list[ModelHome]


class TupleHome(NamedTuple):
    street: str


class Row:
    """An object with `asdict()`, as pyspark and SQLAlchemy have it."""

    def asdict(self) -> dict[str, Any]:
        return {"name": "Ada", "kind": Kind.OLD, "homes": [DataHome("Elm"), AttrsHome("Oak")]}


OBJECTS = [
    PLAIN,
    OrderedDict(PLAIN),
    MappingProxyType(PLAIN),
    DataPerson("Ada", Kind.OLD, [DataHome("Elm"), DataHome("Oak")]),
    AttrsPerson("Ada", Kind.OLD, [AttrsHome("Elm"), AttrsHome("Oak")]),
    StructPerson("Ada", Kind.OLD, [StructHome("Elm"), StructHome("Oak")]),
    ModelPerson(name="Ada", kind=Kind.OLD, homes=[ModelHome(street="Elm"), ModelHome(street="Oak")]),
    Row(),
    # A mapping with objects in it.
    {"name": "Ada", "kind": Kind.OLD, "homes": [TupleHome("Elm"), StructHome("Oak")]},
]


@pytest.mark.parametrize("person", OBJECTS, ids=lambda each: type(each).__name__)
async def test_objects_of_the_common_libraries(person: Any, embedded: EmbeddedRegistry) -> None:
    """All of them are written as the mapping is."""
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, PERSON)
        assert read_by_fastavro(PERSON, await written(serializer, person)) == [PLAIN]


async def test_an_own_conversion(embedded: EmbeddedRegistry) -> None:
    """`to_dict` gets each object."""
    async with Registry(embedded.url) as registry:
        serializer = AvroSerializer[str](
            registry, PERSON, to_dict=lambda name: {"name": name, "kind": "new", "homes": []}
        )
        found = read_by_fastavro(PERSON, await written(serializer, "Bob"))
        assert found == [{"name": "Bob", "kind": "new", "homes": []}]


async def test_an_object_that_does_not_fit(embedded: EmbeddedRegistry) -> None:
    """fastavro's error is raised; with `strict` also for a field too many."""
    async with Registry(embedded.url) as registry:
        loose: AvroSerializer[Any] = AvroSerializer(registry, PERSON)
        strict: AvroSerializer[Any] = AvroSerializer(registry, PERSON, strict=True)
        await loose.warm("t")
        await strict.warm("t")
        for wrong in (
            {"name": 5, "kind": "old", "homes": []},
            {},
            7,
            "text",
            [PLAIN],
            {**PLAIN, "kind": "odd"},
        ):
            with pytest.raises((TypeError, ValueError, AttributeError, KeyError)):
                loose.serialize("t", None, wrong)
        loose.serialize("t", None, {**PLAIN, "more": 1})
        with pytest.raises(ValueError, match="more"):
            strict.serialize("t", None, {**PLAIN, "more": 1})


async def test_bytes_are_written_as_they_are(embedded: EmbeddedRegistry) -> None:
    """The schema "bytes" has no length before its content."""
    async with Registry(embedded.url) as registry:
        for schema in ("bytes", '"bytes"', '{"type":"bytes"}'):
            serializer: AvroSerializer[Any] = AvroSerializer(registry, schema)
            assert (await written(serializer, b"\0\1\2"))[0][5:] == b"\0\1\2"
            with pytest.raises(TypeError, match="bytes"):
                serializer.serialize("orders", None, "text")
        amount: AvroSerializer[Any] = AvroSerializer(
            registry, '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}'
        )
        assert (await written(amount, decimal.Decimal("1.28")))[0][5:] == b"\x04\0\x80"


async def test_logical_types_and_named_branches(embedded: EmbeddedRegistry) -> None:
    """Times stay times, and a tuple names a branch of a union, in an object as well."""
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {
                "name": "either",
                "type": [
                    {"type": "record", "name": "A", "fields": [{"name": "n", "type": "int"}]},
                    {"type": "record", "name": "B", "fields": [{"name": "n", "type": "int"}]},
                ],
            },
        ],
    }
    at = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)

    @dataclasses.dataclass
    class Thing:
        at: datetime.datetime
        either: Any

    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema)
        data = await written(serializer, {"at": at, "either": ("B", {"n": 1})}, Thing(at, ("B", {"n": 1})))
        assert data[0] == data[1]
        assert data[0][-2:] == b"\x02\x02"
        assert read_by_fastavro(schema, data)[0] == {"at": at, "either": {"n": 1}}


class Readings:
    """Values that are taken by the first who reads them."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = deque(values)

    def __iter__(self) -> Iterator[Any]:
        while self._values:
            yield self._values.popleft()


class SizedReadings(Readings):
    """The same, with a number of them."""

    def __len__(self) -> int:
        return len(self._values)


@pytest.mark.parametrize(
    "items",
    [
        lambda: iter([1, 2]),
        lambda: map(int, "12"),
        lambda: (n for n in (1, 2)),
        lambda: Readings([1, 2]),
        lambda: SizedReadings([1, 2]),
    ],
)
async def test_an_iterator_is_never_read_twice(items: Any, embedded: EmbeddedRegistry) -> None:
    """A second attempt, for objects inside of a mapping, would find it empty, and write a record without its items."""
    fields = [
        {"name": "items", "type": {"type": "array", "items": "int"}},
        {
            "name": "home",
            "type": {"type": "record", "name": "Home", "fields": [{"name": "street", "type": "string"}]},
        },
    ]
    schema = {"type": "record", "name": "Lists", "fields": fields}

    @dataclasses.dataclass
    class Lists:
        items: Any
        home: Any

    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema)
        home = {"street": "Elm"}
        data = await written(
            serializer,
            {"items": items(), "home": home},
            Lists(items(), home),
            Lists(items(), DataHome("Elm")),
            {"items": items(), "home": DataHome("Elm")},
            {"home": DataHome("Elm"), "items": items()},
        )
        assert read_by_fastavro(schema, data) == [{"items": [1, 2], "home": home}] * 5


@pytest.mark.parametrize("kind", ["boolean", "long", "int", "null", {"type": "int", "logicalType": "date"}])
async def test_the_items_of_an_iterator_are_checked(kind: Any, embedded: EmbeddedRegistry) -> None:
    """In a mapping too, where they were written as other values: 3.7 as 3, "no" as True."""
    fields = [{"name": "items", "type": {"type": "array", "items": kind}}]
    schema = {"type": "record", "name": "Lists", "fields": fields}
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema)
        await serializer.warm("t")
        for items in (iter([3.7]), Readings([3.7])):
            with pytest.raises((TypeError, ValueError), match="on field items"):
                serializer.serialize("t", None, {"items": items})


READERS: dict[str, tuple[Callable[[Any, Any], Any], list[Any], Any]] = {
    "long": (lambda data, schema: sum(data), [1, 2], 3),
    "array": (lambda data, schema: sorted(data), [3, 1], [1, 3]),
    "bytes": (lambda data, schema: b",".join(data), [b"a", b"b"], b"a,b"),
    "string": (lambda data, schema: ",".join(data), ["a", "b"], "a,b"),
}


@pytest.mark.parametrize("base", READERS)
@pytest.mark.parametrize("items", [iter, Readings, SizedReadings, deque])
async def test_an_iterator_for_a_function_of_the_program(
    base: str, items: Any, embedded: EmbeddedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is called for the check, for the choice of a type and for the bytes: it gets a list each time."""
    write, given_items, read = READERS[base]
    monkeypatch.setitem(fastavro.write.LOGICAL_WRITERS, f"{base}-read", write)
    kind = {"type": base, "items": "long", "logicalType": "read"}
    async with Registry(embedded.url) as registry:
        for outer in (kind, ["null", kind], ["null", kind, "boolean"]):
            # Alone: a part that is refused before it would be converted with it.
            schema = record_of("Reads", outer)
            serializer: AvroSerializer[Any] = AvroSerializer(
                registry, schema, subject=lambda *_, name=str(outer): name
            )
            data = await written(serializer, {"f": items(given_items)})
            assert read_by_fastavro(schema, data) == [{"f": read}]


def test_an_iterator_with_the_name_of_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function has read it when another field turns out to need a conversion, whatever tuples came before."""
    monkeypatch.setitem(fastavro.write.LOGICAL_WRITERS, "string-read", lambda data, schema: ",".join(data))
    schema = {
        "type": "record",
        "name": "Reads",
        "fields": [
            {"name": "read", "type": ["null", {"type": "string", "logicalType": "read"}]},
            {"name": "other", "type": "string"},
        ],
    }
    serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1)
    encode = serializer._make(Schema(json.dumps(schema)), {}).encode(b"")
    items = ("a", "b", "c")
    for each in (items, iter(items)):
        made = io.BytesIO(encode({"read": ("string", each), "other": Kind.OLD}))
        assert fastavro.schemaless_reader(made, fastavro.parse_schema(schema), None) == {
            "read": "a,b,c",
            "other": "old",
        }


@pytest.mark.parametrize("items", [iter, Readings])
def test_an_iterator_in_the_value_of_a_function(items: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function is called more than once, and gets a list each time, at any depth."""
    writers = fastavro.write.LOGICAL_WRITERS
    monkeypatch.setitem(writers, "string-read", lambda data, schema: ",".join(data["items"]))
    monkeypatch.setitem(writers, "string-rows", lambda data, schema: ",".join(data[0]))
    monkeypatch.setitem(writers, "string-deep", lambda data, schema: ",".join(data[0]["items"]))
    monkeypatch.setitem(writers, "long-total", lambda data, schema: sum(map(len, data["items"])))
    for base, logical, make, read in (
        ("string", "read", lambda: {"items": items(["a", "b"])}, "a,b"),
        ("string", "read", lambda: MappingProxyType({"items": items(["a", "b"])}), "a,b"),
        ("string", "rows", lambda: [items(["a", "b"])], "a,b"),
        ("string", "rows", lambda: deque([items(["a", "b"])]), "a,b"),
        ("string", "rows", lambda: (items(["a", "b"]), 1, 2), "a,b"),
        ("string", "deep", lambda: ({"items": items(["a", "b"])}, 1, 2), "a,b"),
        ("long", "total", lambda: {"items": items(["a", "b"])}, 2),
    ):
        kind = {"type": base, "logicalType": logical}
        inner = record_of("Inner", kind)
        for outer, nested in (
            (kind, False),
            (["null", kind], False),
            (["null", kind, "boolean"], False),
            (["null", inner, "boolean"], True),
        ):
            schema = record_of("R", outer)
            schema["fields"].append({"name": "other", "type": "string"})
            serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1)
            encode = serializer._make(Schema(json.dumps(schema)), {}).encode(b"")
            # Twice: a class that is known says nothing of the next object.
            for other in ("old", Kind.OLD):
                value: Any = {"f": make()} if nested else make()
                made = io.BytesIO(encode({"f": value, "other": other}))
                expected = {"f": read} if nested else read
                assert fastavro.schemaless_reader(made, fastavro.parse_schema(schema), None) == {
                    "f": expected,
                    "other": "old",
                }


def test_a_value_of_a_function_with_itself_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function may take a part of it."""
    monkeypatch.setitem(fastavro.write.LOGICAL_WRITERS, "string-named", lambda data, schema: data["name"])
    value: dict[str, Any] = {"name": "a"}
    value["parent"] = value
    for kind, prefix in (
        ({"type": "string", "logicalType": "named"}, b""),
        (["null", {"type": "string", "logicalType": "named"}, "long"], b"\x02"),
    ):
        schema = record_of("R", kind)
        serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1)
        assert serializer._make(Schema(json.dumps(schema)), {}).encode(b"")({"f": value}) == prefix + b"\x02a"


def test_a_function_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record may fit: it is not refused."""

    def exhausted(data: Any, schema: Any) -> Any:
        raise MemoryError

    monkeypatch.setitem(fastavro.write.LOGICAL_WRITERS, "string-exhausted", exhausted)
    schema = record_of("R", {"type": "string", "logicalType": "exhausted"})
    serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1)
    encode = serializer._make(Schema(json.dumps(schema)), {}).encode(b"")
    for value in ("a", Kind.OLD):
        with pytest.raises(MemoryError):
            encode({"f": value})


@pytest.mark.parametrize("kind", ["alone", "array", "map"])
def test_calls_of_a_function_for_texts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """fastavro alone calls it: the check needs no value of it."""
    calls: list[str] = []

    def seen_by(data: Any, schema: Any) -> Any:
        calls.append(data)
        return data

    monkeypatch.setitem(fastavro.write.LOGICAL_WRITERS, "string-seen", seen_by)
    seen = {"type": "string", "logicalType": "seen"}
    types = {"alone": seen, "array": {"type": "array", "items": seen}, "map": {"type": "map", "values": seen}}
    schema = record_of("R", types[kind])
    serializer: AvroSerializer[Any] = AvroSerializer("http://localhost", schema, schema_id=1)
    encode = serializer._make(Schema(json.dumps(schema)), {}).encode(b"")
    encode({"f": {"alone": "a", "array": ["a"], "map": {"b": "a"}}[kind]})
    assert calls == ["a"]


async def test_iterables_that_a_function_of_the_program_takes(
    embedded: EmbeddedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Networks are iterables, and so are models of pydantic: no lists are made of them."""
    monkeypatch.setitem(fastavro.write.LOGICAL_WRITERS, "string-net", lambda data, schema: str(data))
    monkeypatch.setitem(fastavro.write.LOGICAL_WRITERS, "string-home", lambda data, schema: data.street)
    for logical, value, read in (
        ("net", ipaddress.ip_network("10.0.0.0/8"), "10.0.0.0/8"),
        ("home", ModelHome(street="Elm"), "Elm"),
    ):
        kind = {"type": "string", "logicalType": logical}
        for number, union in enumerate((kind, ["null", kind], ["null", kind, "boolean"])):
            async with Registry(embedded.url) as registry:
                schema = record_of("R", union)
                serializer: AvroSerializer[Any] = AvroSerializer(
                    registry, schema, subject=lambda *_, name=f"{logical}{number}": name
                )
                assert read_by_fastavro(schema, await written(serializer, {"f": value})) == [{"f": read}]


async def test_an_iterable_without_an_end(embedded: EmbeddedRegistry) -> None:
    """It is refused where it does not fit, and nothing is read of it."""
    network: Any = ipaddress.ip_network("::/0")
    for kind in ("string", {"type": "array", "items": "string"}):
        async with Registry(embedded.url) as registry:
            serializer: AvroSerializer[Any] = AvroSerializer(registry, record_of("R", kind))
            await serializer.warm("t")
            with pytest.raises(TypeError, match="on field f"):
                serializer.serialize("t", None, {"f": network})


class Shape(msgspec.Struct, tag=True):
    """A Struct with a tag, and a field that may be absent."""

    sides: int
    name: str | msgspec.UnsetType = msgspec.UNSET


async def test_structs_with_tags_and_absent_fields(embedded: EmbeddedRegistry) -> None:
    """The default of the schema stands for an absent field, and the name of the record for the tag."""
    fields = [{"name": "sides", "type": "int"}, {"name": "name", "type": "string", "default": "-"}]
    schema = {"type": "record", "name": "Shape", "fields": fields}
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema)
        data = await written(serializer, Shape(3), Shape(4, "square"))
        assert read_by_fastavro(schema, data) == [{"sides": 3, "name": "-"}, {"sides": 4, "name": "square"}]
        strict: AvroSerializer[Any] = AvroSerializer(registry, schema, strict=True)
        assert await written(strict, Shape(4, "square")) == data[1:]


async def test_references(place: Place, registry: Registry) -> None:
    """A schema that refers to others, which refer to the same one."""
    street, home, person = (place.subject(name) for name in ("street", "home", "person"))
    await registry.register(
        street, Schema('{"type":"record","name":"s.Street","fields":[{"name":"n","type":"string"}]}')
    )
    to_street = Reference("s.Street", street, 1)
    await registry.register(
        home,
        Schema(
            '{"type":"record","name":"Home","fields":[{"name":"at","type":"s.Street"}]}',
            references=[to_street],
        ),
    )
    schema = Schema(
        '{"type":"record","name":"P","fields":[{"name":"home","type":"Home"},{"name":"work","type":"s.Street"}]}',
        references=[Reference("Home", home, 1), to_street],
    )
    obj = {"home": {"at": {"n": "Elm"}}, "work": {"n": "Oak"}}
    topic = place.subject("people")
    serializer: AvroSerializer[Any] = AvroSerializer(registry, schema, subject=lambda *_: person)
    data = await written(serializer, obj, topic=topic)
    assert await asyncio.to_thread(read_by_confluent, place.url, data) == [obj]
    # A serializer that knows the number only.
    (number,) = {int.from_bytes(data[0][1:5], "big")}
    other: AvroSerializer[Any] = AvroSerializer(registry, schema_id=number)
    assert await written(other, obj, topic=topic) == data


async def test_header_framing_is_read_by_others(embedded: EmbeddedRegistry) -> None:
    """The guid in the header, and the data without a prefix."""
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, PERSON, framing="header")
        await serializer.warm("orders")
        made = serializer.serialize("orders", None, PLAIN)
        assert isinstance(made, Encoded)
        context = SerializationContext("orders", MessageField.VALUE, list(made.headers or ()))  # type: ignore[arg-type]

        def read() -> Any:
            with SchemaRegistryClient({"url": embedded.url}) as client:
                return AvroDeserializer(client)(made.data, context)

        assert await asyncio.to_thread(read) == PLAIN


@pytest.mark.parametrize(
    "schema", ["", "{", "7", '{"type":"record"}', '"none"', '{"type":"enum","name":"E"}', 7]
)
def test_a_schema_that_is_none(schema: Any) -> None:
    """It is refused when the serializer is made."""
    with pytest.raises(ConfigurationError, match="schema"):
        AvroSerializer("http://localhost", schema)


async def test_a_type_that_no_reference_has(embedded: EmbeddedRegistry) -> None:
    """It is found when the references are known."""
    async with Registry(embedded.url) as registry:
        await registry.register("a", Schema('"string"'))
        wrong = Schema(
            '{"type":"record","name":"R","fields":[{"name":"a","type":"B"}]}',
            references=[Reference("a", "a", 1)],
        )
        serializer: AvroSerializer[Any] = AvroSerializer(registry, wrong)
        with pytest.raises(ConfigurationError, match="no Avro schema"):
            await serializer.prepare("t", None, {})
        missing = Schema('"string"', references=[Reference("x", "x", 1)])
        with pytest.raises(RegistryError):
            await AvroSerializer[Any](registry, missing).prepare("t", None, {})


async def test_what_is_not_prepared(embedded: EmbeddedRegistry) -> None:
    """`serialize` says so for each new topic; None needs no schema."""
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, PERSON)
        assert serializer.serialize("a", None, None) is None
        await serializer.warm("a")
        serializer.serialize("a", None, PLAIN)
        with pytest.raises(NotPrepared):
            serializer.serialize("b", None, PLAIN)


def test_the_name_of_a_file_is_no_schema() -> None:
    """The advice is to read the file."""
    with pytest.raises(ConfigurationError, match="not the name of its file"):
        AvroSerializer("http://localhost", "schemas/order.avsc")
    with pytest.raises(ConfigurationError, match="read_text"):
        AvroSerializer("http://localhost", Path("schemas/order.avsc"))  # type: ignore[arg-type]


async def test_a_decimal_without_precision(embedded: EmbeddedRegistry) -> None:
    """fastavro cannot write it: the schema is named as the reason."""
    async with Registry(embedded.url) as registry:
        kind = {"type": "bytes", "logicalType": "decimal"}
        serializer: AvroSerializer[Any] = AvroSerializer(registry, record_of("R", kind))
        with pytest.raises(ConfigurationError, match="a decimal has no precision"):
            await serializer.warm("t")


def record_of(name: str, kind: Any) -> Any:
    """The schema of a record with one field."""
    return {"type": "record", "name": name, "fields": [{"name": "f", "type": kind}]}


class Epoch:
    """A class of a program, for which fastavro has a function of that program."""

    def __init__(self, number: int) -> None:
        self.number = number


CUSTOM: list[tuple[Any, Any, Any]] = [
    ({"type": "int", "logicalType": "epoch"}, Epoch(5), 5),
    (["null", {"type": "int", "logicalType": "epoch"}], Epoch(5), 5),
    (["null", {"type": "int", "logicalType": "epoch"}, "string"], Epoch(5), 5),
    ({"type": "array", "items": "int", "logicalType": "epoch"}, Epoch(5), [5]),
    (["null", {**record_of("M", "int"), "logicalType": "epoch"}, record_of("N", "int")], Epoch(5), {"f": 5}),
]


MADE: list[tuple[Any, Any]] = [
    ({"type": "long", "logicalType": "kept"}, 3.7),
    (["null", {"type": "long", "logicalType": "kept"}], 3.7),
    ({"type": "array", "items": "boolean", "logicalType": "kept"}, [None]),
    ({"type": "map", "values": "long", "logicalType": "kept"}, {"a": 3.7}),
    ({**record_of("M", "long"), "logicalType": "kept"}, {"f": 3.7}),
    ({"type": "long", "logicalType": "timestamp-nanos"}, 3.7),
    # Of classes that only the function takes, and of those that the type below would take.
    (["null", "boolean", {"type": "long", "logicalType": "parsed"}], "3.7"),
    (["null", "boolean", {"type": "long", "logicalType": "parsed"}], 3),
    (["null", "boolean", {"type": "float", "logicalType": "large"}], "x"),
    ([{"type": "string", "logicalType": "none"}, {"type": "float", "logicalType": "large"}], "x"),
]


@pytest.mark.parametrize(("kind", "value"), MADE, ids=str)
async def test_what_a_logical_type_of_the_program_makes(
    kind: Any, value: Any, embedded: EmbeddedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that is still none of the type below is refused. 3.7 was written as 3, and None as False."""
    for name in ("long", "array", "map", "record"):
        monkeypatch.setitem(fastavro.write.LOGICAL_WRITERS, f"{name}-kept", lambda data, schema: data)
    monkeypatch.setitem(
        fastavro.write.LOGICAL_WRITERS, "long-parsed", lambda data, schema: decimal.Decimal("3.7")
    )
    monkeypatch.setitem(fastavro.write.LOGICAL_WRITERS, "float-large", lambda data, schema: 1e300)
    monkeypatch.setitem(fastavro.write.LOGICAL_WRITERS, "string-none", lambda data, schema: None)
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, record_of("R", kind))
        await serializer.warm("t")
        with pytest.raises((TypeError, ValueError), match="on field f"):
            serializer.serialize("t", None, {"f": value})


@pytest.mark.parametrize(
    ("kind", "value", "read"), CUSTOM, ids=["alone", "optional", "union", "array", "record"]
)
async def test_logical_types_of_the_program(
    kind: Any, value: Any, read: Any, embedded: EmbeddedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function in LOGICAL_WRITERS of fastavro takes the values of its type, whatever their class is."""
    for name, make in (
        ("int", int),
        ("array", lambda number: [number]),
        ("record", lambda number: {"f": number}),
    ):
        write: Any = lambda data, schema, make=make: make(data.number) if isinstance(data, Epoch) else data  # noqa: E731
        monkeypatch.setitem(fastavro.write.LOGICAL_WRITERS, f"{name}-epoch", write)
    async with Registry(embedded.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, record_of("R", kind))
        assert read_by_fastavro(record_of("R", kind), await written(serializer, {"f": value})) == [
            {"f": read}
        ]

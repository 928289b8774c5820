"""Messages of Protobuf: equal when other readers read them."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, timestamp_pb2
from hypothesis import given, settings

from aioproducer.errors import ConfigurationError
from aioproducer.registry import ProtobufSerializer, Registry, Schema, SchemaNotFoundError
from aioproducer.registry.formats.protobuf_paths import path_in
from aioproducer.registry.framings import path_bytes
from aioproducer.testing import EmbeddedRegistry
from tests.registry.conftest import Place, Readers
from tests.registry.messages import cases, people

PEOPLE = people()
PERSON = PEOPLE["people.Person"]
VALUE = SerializationContext("people", MessageField.VALUE)


async def written(serializer: ProtobufSerializer[Any], message: Any, topic: str = "people") -> bytes:
    """The bytes of a message."""
    await serializer.prepare(topic, None, message)
    made = serializer.serialize(topic, None, message)
    assert isinstance(made, bytes)
    return made


@given(cases())
@settings(max_examples=30, deadline=None)
def test_any_message_of_any_file(readers: Readers, case: tuple[Any, dict[str, Any]]) -> None:
    """confluent-kafka reads the written message, from a message and from a mapping."""
    kind, fields = case

    async def main() -> list[bytes]:
        async with Registry(readers.url) as registry:
            serializer: ProtobufSerializer[Any] = ProtobufSerializer(registry, kind)
            topic = kind.DESCRIPTOR.file.name
            return [await written(serializer, each, topic) for each in (kind(**fields), fields)]

    for data in asyncio.run(main()):
        reader = ProtobufDeserializer(kind, {"use.deprecated.format": False}, readers.client)
        assert reader(data, VALUE) == kind(**fields)


async def test_imports_are_registered_first(place: Place, registry: Registry) -> None:
    """As references, each under the name of its file; those of Google are left out."""
    person = PERSON(name="Ada", home={"street": "Elm"}, born={"seconds": 5})
    serializer: ProtobufSerializer[Any] = ProtobufSerializer(registry, PERSON)
    data = await written(serializer, person, place.subject("people"))
    latest = await registry.latest(place.subject("people-value"))
    assert [each.name for each in latest.schema.references] == ["places/home.proto"]
    assert "places/home.proto" in await registry.subjects()
    assert not [each for each in await registry.subjects() if "google" in each]

    def read() -> Any:
        with SchemaRegistryClient({"url": place.url}) as client:
            return ProtobufDeserializer(PERSON, {"use.deprecated.format": False}, client)(data, VALUE)

    assert await asyncio.to_thread(read) == person


@pytest.mark.parametrize(
    ("name", "path", "coded"),
    [
        ("people.First", (0,), b"\0"),
        ("people.Person", (1,), b"\x02\x02"),
        ("people.Person.Zero", (1, 0), b"\x04\x02\0"),
        ("people.Person.Inner.Core", (1, 1, 0), b"\x06\x02\x02\0"),
    ],
)
async def test_the_place_of_a_message(
    name: str, path: tuple[int, ...], coded: bytes, embedded: EmbeddedRegistry
) -> None:
    """Its indexes as zigzag varints behind their count; the first message has one byte."""
    async with Registry(embedded.url) as registry:
        seen: list[Any] = []

        def framing(schema_id: Any, indexes: tuple[int, ...], data: bytes) -> bytes:
            seen.append(indexes)
            return data

        kind = PEOPLE[name]
        data = await written(ProtobufSerializer(registry, kind), kind())
        assert data == b"\0" + data[1:5] + coded
        await written(ProtobufSerializer(registry, kind, framing=framing), kind())
        assert seen == [path]


def test_long_paths() -> None:
    """A varint has seven bits a byte."""
    assert path_bytes((64, 8192)) == b"\x04\x80\x01\x80\x80\x01"
    assert path_bytes(()) == b""


async def test_a_header_has_the_path_too(embedded: EmbeddedRegistry) -> None:
    """Behind the guid."""
    async with Registry(embedded.url) as registry:
        serializer: ProtobufSerializer[Any] = ProtobufSerializer(registry, PERSON, framing="header").for_part(
            "key"
        )
        await serializer.warm("people")
        made: Any = serializer.serialize("people", None, PERSON(name="Ada"))
        ((name, value),) = made.headers
        assert (name, value[0], value[17:]) == ("__key_schema_id", 1, b"\x02\x02")
        assert len(value) == 19
        assert PERSON.FromString(made.data).name == "Ada"


async def test_what_is_no_message(embedded: EmbeddedRegistry) -> None:
    """Other messages and atoms are refused; objects with the fields are taken."""

    @dataclasses.dataclass
    class Someone:
        name: str
        home: dict[str, str]

    async with Registry(embedded.url) as registry:
        serializer: ProtobufSerializer[Any] = ProtobufSerializer(registry, PERSON)
        await serializer.warm("t")
        for wrong in (timestamp_pb2.Timestamp(), 7, "text", [1]):
            with pytest.raises(TypeError, match="Person"):
                serializer.serialize("t", None, wrong)
        with pytest.raises(ValueError, match="other"):
            serializer.serialize("t", None, {"other": 1})
        made: Any = serializer.serialize("t", None, Someone("Ada", {"street": "Elm"}))
        assert PERSON.FromString(made[7:]) == PERSON(name="Ada", home={"street": "Elm"})
    for kind in (7, str, None):
        with pytest.raises(ConfigurationError, match="message_type"):
            ProtobufSerializer("http://localhost", kind)  # type: ignore[arg-type]


async def test_imports_are_looked_up_as_well(embedded: EmbeddedRegistry) -> None:
    """Nothing is registered without `auto_register`."""
    async with Registry(embedded.url) as registry:
        careful: ProtobufSerializer[Any] = ProtobufSerializer(registry, PERSON, auto_register=False)
        with pytest.raises(SchemaNotFoundError):
            await careful.warm("people")
        assert embedded.subjects == ()
        await ProtobufSerializer[Any](registry, PERSON).warm("people")
        await careful.warm("people")


PROTO = """
// message NotThis {}
syntax = "proto3";
package people;
import "places/home.proto"; /* message Nor { } */
option java_package = "message This {";
option (some.option) = { message: "message That {" };
enum Kind { NONE = 0; }
message Other { string message = 1; map<string, Other> by = 2; message Inner {} }
message Person {
  oneof how { string first = 1; string last = 2; }
  map<string, string> notes = 3;
  extensions 100 to 199;
  message Deep { enum E { Z = 0; } message Deeper {} }
}
"""


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("people.Other", (0,)),
        ("people.Other.Inner", (0, 1)),
        ("people.Person", (1,)),
        ("people.Person.Deep", (1, 1)),
        ("people.Person.Deep.Deeper", (1, 1, 0)),
        ("people.NotThis", None),
        ("people.Nor", None),
        ("people.That", None),
        ("people.Person.Inner", None),
        ("Person", (1,)),
    ],
)
def test_the_place_in_the_text_of_a_schema(name: str, path: tuple[int, ...] | None) -> None:
    """Most registries answer with the text of a .proto file. Entries of maps count, as they do in a descriptor."""
    assert path_in(PROTO, name) == path


def test_the_groups_of_an_old_schema() -> None:
    """A group is a message of the message around it, also in a oneof."""
    text = "message A { optional group B = 1 { message C {} } oneof d { group E = 2 {} } message F {} }"
    assert [path_in(text, f"A.{name}") for name in ("B", "B.C", "E", "F")] == [
        (0, 0),
        (0, 0, 0),
        (0, 1),
        (0, 2),
    ]


@pytest.mark.parametrize("as_text", [False, True])
async def test_the_place_in_the_latest_schema(as_text: bool, embedded: EmbeddedRegistry) -> None:
    """A newer file has another message before: readers that go by the index would have read that one."""
    newer = descriptor_pb2.FileDescriptorProto()
    PERSON.DESCRIPTOR.file.CopyToProto(newer)
    newer.message_type.insert(0, descriptor_pb2.DescriptorProto(name="Other"))
    at = [each.name for each in newer.message_type].index("Person")
    text = f"message Before {{}} {PROTO}" if as_text else base64.b64encode(newer.SerializeToString()).decode()
    async with Registry(embedded.url) as registry:
        known = await registry.register("people-value", Schema(text, "PROTOBUF"))
        for options in ({"use_latest": True}, {"schema_id": known.id}):
            serializer: ProtobufSerializer[Any] = ProtobufSerializer(registry, PERSON, **options)
            data = await written(serializer, PERSON(name="Ada"))
            path = path_bytes((at,))
            assert data[5 : 5 + len(path)] == path
            assert PERSON.FromString(data[5 + len(path) :]) == PERSON(name="Ada")
        other = await registry.register("other", Schema("message A {}", "PROTOBUF"))
        with pytest.raises(ConfigurationError, match=r"has no message people\.Person"):
            await ProtobufSerializer[Any](registry, PERSON, schema_id=other.id).warm("t")

"""Producers of objects with serializers of a registry, for type checkers only: each line that says `wrong` is refused, no other is."""

# mypy: ignore-errors
from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import attrs
import msgspec
import pydantic

from aioproducer import Producer, Record, serializers
from aioproducer.outlets import Checkpoint, DeadLetters, SentRecord
from aioproducer.registry import AvroSerializer, JsonSerializer, ProtobufSerializer, Registry
from aioproducer.testing import MockProducer

SCHEMA: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}


class Model(pydantic.BaseModel):
    """An order of pydantic."""

    item: str


class Struct(msgspec.Struct):
    """An order of msgspec."""

    item: str


@attrs.frozen
class Defined:
    """An order of attrs."""

    item: str


@dataclasses.dataclass
class Plain:
    """An order of the standard library."""

    item: str


Order = Model | Struct | Defined | Plain


def to_dict(order: Order) -> dict[str, Any]:
    """One function for all of them."""
    return {"item": order.item}


def of_numbers(number: int) -> dict[str, Any]:
    """A function for something else."""
    return {"item": str(number)}


def of_models(registry: Registry) -> Producer[str, Model]:
    """By the function."""
    values = AvroSerializer(registry, SCHEMA, to_dict=to_dict)
    return Producer("l:1", key_serializer=serializers.string(), value_serializer=values)


def of_structs(registry: Registry) -> Producer[str, Struct]:
    """By what the serializer knows of objects."""
    values = JsonSerializer[Struct](registry, SCHEMA)
    return Producer("l:1", key_serializer=serializers.string(), value_serializer=values)


def of_defined() -> Producer[str, Defined]:
    """By a serializer for keys as well, each with a URL."""
    return Producer(
        "l:1",
        key_serializer=AvroSerializer("https://l:1", "string"),
        value_serializer=AvroSerializer("https://l:1", SCHEMA, to_dict=to_dict),
    )


def of_plain(registry: Registry) -> Producer[str, Plain]:
    """In tests."""
    return MockProducer(
        key_serializer=serializers.string(),
        value_serializer=JsonSerializer(registry, SCHEMA, to_dict=to_dict),
    )


def of_others(registry: Registry) -> Producer[bytes, Model]:
    """A serializer for other objects does not fit."""
    values = AvroSerializer[Plain](registry, SCHEMA)
    return Producer("l:1", value_serializer=values)  # wrong


async def each_kind(registry: Registry) -> None:
    """A producer of each kind takes its own objects, and a string as the key."""
    models, structs, defined, plain = (
        of_models(registry),
        of_structs(registry),
        of_defined(),
        of_plain(registry),
    )
    await models.send("orders", Model(item="a"), key="alice")
    await models.send("orders", None, key="alice")
    await models.send("orders", Struct("a"), key="alice")  # wrong
    await models.send("orders", {"item": "a"}, key="alice")  # wrong
    await models.send("orders", Model(item="a"), key=b"alice")  # wrong
    await structs.send_and_wait("orders", Struct("a"), key="alice")
    structs.send_nowait("orders", Plain("a"), key="alice")  # wrong
    await defined.send_batch("orders", [Defined("a"), Defined("b")], keys=["alice", "bob"])
    await defined.send("orders", Plain("a"), key="alice")  # wrong
    plain.send_threadsafe("orders", Plain("a"), key="alice")
    plain.send_threadsafe("orders", Defined("a"))  # wrong


async def without_annotations(registry: Registry) -> None:
    """The type of a producer follows from its serializers."""
    of_all = Producer("l:1", value_serializer=AvroSerializer(registry, SCHEMA, to_dict=to_dict))
    await of_all.send("orders", Struct("a"), key=b"alice")
    await of_all.send("orders", "a")  # wrong
    await takes_models(of_all)
    by_name = AvroSerializer[Model](registry, SCHEMA)
    inferred = Producer("l:1", key_serializer=serializers.string(), value_serializer=by_name)
    await inferred.send("orders", Model(item="a"), key="alice")
    await inferred.send("orders", Plain("a"), key="alice")  # wrong
    narrow: Producer[Any, Order] = inferred  # wrong
    await narrow.flush()
    messages = Producer("l:1", value_serializer=ProtobufSerializer(registry, Plain))
    await messages.send("orders", Plain("a"))
    await messages.send("orders", Model(item="a"))  # wrong
    AvroSerializer[Model](registry, SCHEMA, to_dict=of_numbers)  # wrong
    anything = AvroSerializer(registry, SCHEMA)
    await takes_models(Producer("l:1", value_serializer=anything))


async def takes_models(producer: Producer[bytes, Model]) -> None:
    """The outlets keep the types of their producer."""
    letters = DeadLetters(producer, "orders.dead")
    await letters.send_and_wait("orders", Model(item="a"), key=b"alice")
    await letters.send_and_wait("orders", "a", key=b"alice")  # wrong
    letters.send("orders", Plain("a"))  # wrong
    checkpoint = Checkpoint[int, SentRecord](producer, dead_letters=letters)
    await checkpoint.send("orders", Model(item="a"))
    checkpoint.mark("a")  # wrong
    await producer.send_all(records(), dead_letters=letters)


def records() -> Iterator[Record[bytes, Model]]:
    """A stream of them."""
    yield Record("orders", Model(item="a"), key=b"alice")
    yield Record("orders", Plain("a"), key=b"alice")  # wrong

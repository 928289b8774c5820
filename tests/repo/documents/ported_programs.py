"""Programs as they come from aiokafka, for type checkers only: each line that says `wrong` is refused, no other is."""

# mypy: ignore-errors
from __future__ import annotations

import json
from typing import Any

from aioproducer import Producer, serializers
from aioproducer.testing import MockProducer


async def lambdas() -> None:
    """A lambda has no annotations: what it is given is not checked."""
    producer = Producer("localhost:9092", value_serializer=lambda value: json.dumps(value).encode())
    await producer.start()
    await producer.send_and_wait("orders", {"apples": 2}, key=b"alice")
    await (await producer.send("orders", [1, 2]))
    await takes_orders(producer_of_both())


def producer_of_both() -> Producer[str, dict[str, int]]:
    """Both of them, where it is said what they take."""
    return Producer(
        bootstrap_servers="localhost:9092",
        key_serializer=lambda key: key.encode(),
        value_serializer=lambda value: json.dumps(value).encode(),
    )


class Service:
    """A producer as an attribute, of a narrower type than its serializers."""

    producer: Producer[str, dict[str, int]]

    def __init__(self) -> None:
        self.producer = Producer(
            "localhost:9092", key_serializer=serializers.string(), value_serializer=serializers.json()
        )

    async def place(self, who: str, order: dict[str, int]) -> int:
        """Send one."""
        metadata = await self.producer.send_and_wait("orders", order, key=who)
        return metadata.offset


async def takes_orders(producer: Producer[str, dict[str, int]]) -> None:
    """Whatever takes more than that fits."""
    await producer.send("orders", {"apples": 2}, key="alice")
    await producer.send("orders", None, key=None)
    await producer.send("orders", b"2", key="alice")  # wrong


async def variance() -> None:
    """`serializers.string()` takes `str | None`: it fits where a `str` is sent."""
    inferred = Producer(
        "localhost:9092", key_serializer=serializers.string(), value_serializer=serializers.json()
    )
    await takes_orders(inferred)
    await inferred.send("orders", 1, key=3)  # wrong
    mock = MockProducer(
        key_serializer=serializers.string(), value_serializer=lambda value: b"%d" % value["apples"]
    )
    await takes_orders(mock)
    wide: Producer[object, object] = Producer("l:1", key_serializer=repr_of, value_serializer=repr_of)
    await takes_orders(wide)
    narrow: Producer[object, object] = inferred  # wrong
    await narrow.flush()


def repr_of(data: object) -> bytes:
    """A serializer of anything."""
    return repr(data).encode()


def json_of(data: dict[str, int]) -> bytes:
    """A serializer of one type."""
    return json.dumps(data).encode()


async def later(data: dict[str, int]) -> bytes:
    """A coroutine function of one type."""
    return json.dumps(data).encode()


class Topical:
    """A serializer that receives the topic."""

    def serialize(self, topic: str, headers: Any, data: str, /) -> bytes:
        """As it is."""
        return f"{topic}:{data}".encode()


async def annotated() -> None:
    """Of a serializer with annotations the type is known; of a producer without one, too."""
    for producer in (
        Producer("l:1", value_serializer=json_of),
        Producer("l:1", value_serializer=later),
    ):
        await producer.send("orders", {"apples": 2}, key=b"alice")
        await producer.send("orders", b"2")  # wrong
    topical = Producer("l:1", key_serializer=Topical())
    await topical.send("orders", b"2", key="alice")
    await topical.send("orders", b"2", key=b"alice")  # wrong
    plain(Producer("l:1"))
    plain(Producer("l:1", value_serializer=json_of))  # wrong
    await Producer("l:1").send("orders", "text")  # wrong
    Producer("l:1", value_serializer=3)  # wrong
    Producer("l:1", linger_milliseconds=3)  # wrong
    Producer("l:1", value_serializer=json_of, linger_ms="3")  # wrong


def plain(producer: Producer) -> None:
    """Without serializers, bytes."""
    producer.send_nowait("orders", b"2", key=memoryview(b"alice"))

"""Programs as they come from aiokafka, and some with the outlets, for type checkers only: each line that says `wrong` is refused, no other is."""

# mypy: ignore-errors
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from aioproducer import Delivery, Producer, serializers
from aioproducer.outlets import Checkpoint, DeadLetters
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


async def checkpoints(producer: Producer[str, str], save: Callable[[int], None]) -> None:
    """A record is a delivery, with dead letters an object that knows of its letter."""
    plain_one = Checkpoint(producer, save)
    delivery = await plain_one.send("orders", "2 apples", key="alice")
    print(delivery.try_cancel(), (await delivery).offset)
    print(delivery.dead_lettered)  # wrong
    plain_one.watch(delivery)
    with_letters = Checkpoint(producer, save, dead_letters=DeadLetters(producer, "orders.dead"))
    sent = await with_letters.send("orders", "2 apples")
    print(sent.dead_lettered, (await sent).offset, with_letters.send_nowait("orders").dead_lettered)
    print(sent.try_cancel())  # wrong
    with_letters.watch(sent)  # wrong
    takes_deliveries(plain_one)
    takes_deliveries(with_letters)  # wrong
    plain_one.mark(2)
    plain_one.mark("2")  # wrong
    position: int | None = plain_one.position
    position = await with_letters.rewind()
    text: str = await with_letters.rewind()  # wrong
    print(position, text)


def takes_deliveries(checkpoint: Checkpoint[int]) -> Delivery:
    """A checkpoint without dead letters, as an annotation has it."""
    return checkpoint.send_nowait("orders", b"2")

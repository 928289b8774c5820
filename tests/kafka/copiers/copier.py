"""A program that copies a topic to another in transactions, offsets included, until all is copied or it is killed.

Its only argument is an `Order` as JSON. It writes a line for each step to its standard output, past every
buffer of this process. It aborts every third transaction on purpose. With `hold` it stops in the middle of its
first transaction until it reads a line.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from typing import Any, Final, Literal

import attrs
from confluent_kafka import Consumer, Message, TopicPartition

from aioproducer import KafkaError, Producer, ProducerFencedError

FENCED: Final = 3
"""The exit code when another copier has taken over."""
_EVERY: Final = 3
_GROUP: Final = "copiers"
_SETTINGS: Final[dict[str, Any]] = {"request_timeout_ms": 4_000, "delivery_timeout_ms": 60_000}
Step = Literal["ready", "begun", "committed", "aborted", "recovering", "holding", "fenced"]


class DeliberateError(Exception):
    """The error that ends every third transaction."""


@attrs.frozen
class Order:
    """The work of one copier."""

    servers: str
    transactional_id: str
    source: str
    sink: str
    ends: dict[int, int]
    """Its partitions, and the number of records that each of them will have."""
    seed: int
    hold: Literal["", "begun", "sent"] = ""
    group: str = _GROUP

    def write(self) -> str:
        """The order as an argument."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def read(cls, argument: str) -> Order:
        """The order of an argument; JSON has no numbers for keys."""
        fields = json.loads(argument)
        return cls(**fields | {"ends": {int(place): end for place, end in fields["ends"].items()}})


def transformed(value: bytes) -> bytes:
    """The value that the copy of a record gets."""
    return b"copy of " + value


def tell(step: Step, details: object = "") -> None:
    """Write one line."""
    os.write(1, f"{step} {details}\n".encode())


@attrs.define(eq=False)
class Copier:
    """Copies between two topics with the same number of partitions."""

    order: Order
    producer: Producer[Any, Any]
    consumer: Consumer
    rng: random.Random
    positions: dict[int, int] = attrs.Factory(dict)
    """The next offset in each of its partitions."""
    transactions: int = 0
    hold: str = ""

    async def run(self) -> None:
        """Copy all; recover after each failure."""
        self.hold = self.order.hold
        await self.recover()
        while any(self.positions[place] < end for place, end in self.order.ends.items()):
            try:
                await self.copy_some()
            except ProducerFencedError:
                raise
            except KafkaError as error:
                tell("recovering", repr(error))
                await self.recover()

    async def recover(self) -> None:
        """End the open transaction, then continue at the last committed offsets of any copier."""
        await self.producer.init_transactions()
        places = [(self.order.source, place) for place in self.order.ends]
        committed = await self.producer.committed_offsets(self.order.group, places)
        self.positions = dict.fromkeys(self.order.ends, 0)
        self.positions |= {place.partition: one.offset for place, one in committed.items()}
        self.rewind()
        tell("ready")

    def rewind(self) -> None:
        """Read the records since the last commit again."""
        self.consumer.assign(
            [TopicPartition(self.order.source, place, offset) for place, offset in self.positions.items()]
        )

    async def copy_some(self) -> None:
        """Copy in one transaction."""
        records = await self.consume(self.rng.randrange(100, 300))
        if not records:
            return
        self.transactions += 1
        try:
            await self.copy(records)
        except DeliberateError:
            self.rewind()
            tell("aborted", len(records))
        else:
            for record in records:
                self.positions[_known(record.partition())] = _known(record.offset()) + 1
            tell("committed", len(records))

    async def consume(self, most: int) -> list[Message]:
        """At most so many records."""
        read = await asyncio.to_thread(self.consumer.consume, most, 0.1)
        return [message for message in read if message.error() is None]

    async def copy(self, records: list[Message]) -> None:
        """Copy records and offsets, or neither."""
        async with self.producer.transaction() as transaction:
            tell("begun", len(records))
            await self.pause("begun")
            for record in records:
                value = record.value()
                assert value is not None
                place = _known(record.partition())
                await self.producer.send(
                    self.order.sink, transformed(bytes(value)), key=record.key(), partition=place
                )
            transaction.consumed(records, self.order.group)
            await self.pause("sent")
            if self.transactions % _EVERY == 0:
                if self.rng.random() < 0.5:
                    await self.producer.flush()
                raise DeliberateError

    async def pause(self, moment: str) -> None:
        """Wait for a line, if the order holds the copier here."""
        if self.hold == moment:
            self.hold = ""
            await self.producer.flush()
            tell("holding")
            await asyncio.to_thread(sys.stdin.readline)


def _known(number: int | None) -> int:
    assert number is not None, "a message that was read has a place"
    return number


async def main(order: Order) -> int:
    """Run, and return the exit code."""
    consumer = Consumer(
        {
            "bootstrap.servers": order.servers,
            "group.id": order.group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 20,
        }
    )
    settings = _SETTINGS | {"transactional_id": order.transactional_id}
    try:
        async with Producer(order.servers, **settings) as producer:
            await Copier(order, producer, consumer, random.Random(order.seed)).run()
    except ProducerFencedError:
        tell("fenced")
        return FENCED
    finally:
        consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Order.read(sys.argv[1]))))

"""A program that copies a topic to another in transactions, offsets included, until it has all or somebody ends it.

Its only argument is an `Order` as JSON. What it does it says on its standard output, a line for each step, past every
buffer of this process. Every third transaction it aborts, for no reason. With `hold` it stops in the middle of its
first transaction until a line comes in.
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
"""Its exit code when another copier has taken over."""
_EVERY: Final = 3
_GROUP: Final = "copiers"
_SETTINGS: Final[dict[str, Any]] = {"request_timeout_ms": 4_000, "delivery_timeout_ms": 60_000}
Step = Literal["ready", "begun", "committed", "aborted", "recovering", "holding", "fenced"]


class DeliberateError(Exception):
    """What every third transaction ends with."""


@attrs.frozen
class Order:
    """What a copier is to do."""

    servers: str
    transactional_id: str
    source: str
    sink: str
    ends: dict[int, int]
    """Its partitions, and how many records each of them will have."""
    seed: int
    hold: Literal["", "begun", "sent"] = ""
    group: str = _GROUP

    def write(self) -> str:
        """As an argument."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def read(cls, argument: str) -> Order:
        """Of an argument; JSON has no numbers for keys."""
        told = json.loads(argument)
        return cls(**told | {"ends": {int(place): end for place, end in told["ends"].items()}})


def transformed(value: bytes) -> bytes:
    """What becomes of a record on the way."""
    return b"copy of " + value


def tell(step: Step, details: object = "") -> None:
    """One line."""
    os.write(1, f"{step} {details}\n".encode())


@attrs.define(eq=False)
class Copier:
    """Between two topics with the same number of partitions."""

    order: Order
    producer: Producer[Any, Any]
    consumer: Consumer
    rng: random.Random
    positions: dict[int, int] = attrs.Factory(dict)
    """Where it goes on in each of its partitions."""
    transactions: int = 0
    hold: str = ""

    async def run(self) -> None:
        """Recover whenever something fails, and go on."""
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
        """End what is open, then go on where the last commit has come to, whoever made it."""
        await self.producer.init_transactions()
        places = [(self.order.source, place) for place in self.order.ends]
        committed = await self.producer.committed_offsets(self.order.group, places)
        self.positions = dict.fromkeys(self.order.ends, 0)
        self.positions |= {place.partition: one.offset for place, one in committed.items()}
        self.rewind()
        tell("ready")

    def rewind(self) -> None:
        """Read again what was read since the last commit."""
        self.consumer.assign(
            [TopicPartition(self.order.source, place, offset) for place, offset in self.positions.items()]
        )

    async def copy_some(self) -> None:
        """One transaction."""
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
        """So many records, or fewer."""
        read = await asyncio.to_thread(self.consumer.consume, most, 0.1)
        return [message for message in read if message.error() is None]

    async def copy(self, records: list[Message]) -> None:
        """Records and offsets, or neither."""
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
        """Wait for a word, if that was ordered for this moment."""
        if self.hold == moment:
            self.hold = ""
            await self.producer.flush()
            tell("holding")
            await asyncio.to_thread(sys.stdin.readline)


def _known(number: int | None) -> int:
    assert number is not None, "a message that was read has a place"
    return number


async def main(order: Order) -> int:
    """Its exit code."""
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

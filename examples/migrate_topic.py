"""Migrate a topic to a new schema: python examples/migrate_topic.py [partition ...].

Each record of the topic `orders` becomes one record of the topic `orders.v2`, in Avro with a new schema, in the same
partition, with the same key, headers and time. There is no gap and no double, also when the program is killed at any line
and started again: the new records and the offset of the next old one are written in one transaction. A record that cannot
be read, or that does not fit the new schema, is set aside in `orders.v2.dead`, in the same transaction.

The steps of a migration:

1. Create `orders.v2` with as many partitions as `orders`, and start this program. It may run for days beside the writers
   of the old topic. It prints `caught up` whenever it has copied all that is there.
2. Let the readers read `orders.v2`, with isolation_level="read_committed".
3. Stop the old writers, wait for `caught up`, and start the new ones, which write to `orders.v2`. So the records of each
   key stay in their order.
4. Stop this program, and delete `orders`.

It needs aiokafka and the extra `avro`. `KAFKA` and `REGISTRY` name other places than localhost.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import sys
from typing import Any

import fastavro
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from aioproducer import Producer, Record, TransactionAbortedError
from aioproducer.outlets import DeadLetters
from aioproducer.registry import AvroSerializer, Registry, RegistryError

KAFKA = os.environ.get("KAFKA", "localhost:9092")
REGISTRY = os.environ.get("REGISTRY", "http://localhost:8081")
OLD, NEW, GROUP = "orders", "orders.v2", "migration-of-orders"
SCHEMA = """{"type": "record", "name": "Order", "fields": [
    {"name": "item", "type": "string"},
    {"name": "count", "type": "long"},
    {"name": "pence", "type": ["null", "long"], "default": null}]}"""


def renewed(order: dict[str, Any]) -> dict[str, Any]:
    """The new form of an order, which has its price in pence; older ones have it in pounds, or none."""
    pounds = order.pop("pounds", None)
    return {**order, "pence": None if pounds is None else round(100 * pounds)}


class Migration:
    """Copies the records of some partitions."""

    def __init__(
        self, consumer: AIOKafkaConsumer, producer: Producer[bytes, dict[str, Any]], registry: Registry
    ) -> None:
        self.consumer, self.producer, self.registry = consumer, producer, registry
        self.letters = DeadLetters(producer, NEW + ".dead")
        self.schemas: dict[int, Any] = {}

    async def run(self, places: list[TopicPartition]) -> None:
        """Copy all records, and those that are still to come; never returns."""
        await self.producer.init_transactions()
        await self.rewind(places)
        is_behind = True
        while True:
            found = await self.consumer.getmany(timeout_ms=1_000, max_records=500)
            records = [record for some in found.values() for record in some]
            if not records:
                if is_behind and await self.is_at_the_end(places):
                    is_behind = False
                    print("caught up", flush=True)
                continue
            is_behind = True
            try:
                async with self.producer.transaction() as tx:
                    for record in records:
                        await self.copy(record)
                    tx.consumed(records, GROUP)
            except TransactionAbortedError as error:
                # The consumer has advanced: without rewind() it would not return these records again.
                if not error.retriable:
                    raise
                print(f"repeating: {error}", file=sys.stderr)
                await self.rewind(places)

    async def rewind(self, places: list[TopicPartition]) -> None:
        """Continue after the last committed transaction."""
        committed = await self.producer.committed_offsets(GROUP, places)
        beginnings = await self.consumer.beginning_offsets(places)
        for place in places:
            self.consumer.seek(place, committed[place].offset if place in committed else beginnings[place])

    async def is_at_the_end(self, places: list[TopicPartition]) -> bool:
        """Whether all records that are there now were copied."""
        ends = await self.consumer.end_offsets(places)
        return all([await self.consumer.position(place) >= ends[place] for place in places])

    async def copy(self, record: ConsumerRecord) -> None:
        """Write the new form of a record, or set the record aside."""
        try:
            order = None if record.value is None else renewed(await self.read(record.value))
        except Exception as error:
            if isinstance(error, RegistryError) and error.retriable:
                raise
            aside = Record(
                NEW, record.value, key=record.key, partition=record.partition, headers=record.headers
            )
            self.letters.put(aside, error)
            return
        # The next one when this one has its place: the memory of the producer is the limit.
        await self.letters.send(
            NEW,
            order,
            key=record.key,
            partition=record.partition,
            timestamp=record.timestamp,
            headers=record.headers,
        ).placed()

    async def read(self, value: bytes) -> dict[str, Any]:
        """An old record, read with the schema that it was written with."""
        if value[0] != 0:
            raise ValueError("the record has no id of a schema")
        number = int.from_bytes(value[1:5], "big")
        if number not in self.schemas:
            schema = await self.registry.schema(number)
            self.schemas[number] = fastavro.parse_schema(json.loads(schema.text))
        order: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), self.schemas[number], None)
        return dict(order)


async def main(numbers: list[int]) -> None:
    """Migrate these partitions."""
    places = [TopicPartition(OLD, number) for number in numbers]
    name = "-".join(map(str, numbers))
    # auto_offset_reset="none": the program ends if records were deleted before they were copied.
    async with (
        Registry(REGISTRY) as registry,
        AIOKafkaConsumer(
            bootstrap_servers=KAFKA, isolation_level="read_committed", auto_offset_reset="none"
        ) as consumer,
        Producer(
            KAFKA,
            transactional_id=f"{GROUP}-{name}",
            value_serializer=AvroSerializer[dict[str, Any]](registry, SCHEMA),
            close_timeout_ms=10_000,
        ) as producer,
    ):
        consumer.assign(places)
        await Migration(consumer, producer, registry).run(places)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(sorted(map(int, sys.argv[1:])) or [0]))

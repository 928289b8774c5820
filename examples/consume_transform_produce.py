"""Consume, transform, produce, exactly once: python examples/consume_transform_produce.py [partition ...].

Each record of the topic `orders` becomes one record of the topic `invoices`, exactly once. This holds also when the
program is killed at any line, and when brokers fail:

* Invoices and the offset of the next order are written in one transaction: both are committed, or neither.
* At the start and after an abort, the program asks Kafka for this offset. `committed_offsets()` waits for a transaction
  that is still being ended; a consumer of the group may get the offset from before it.
* `init_transactions()` aborts an open transaction of the transactional id, and fences a producer that still uses the
  id. So each partition must always belong to the same transactional id: to run several of these programs, give each
  its own partitions.

Orders are read with isolation_level="read_committed", and invoices must be read so too. Any other error ends the
program; its supervisor starts it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

from aiokafka import AIOKafkaConsumer, TopicPartition

from aioproducer import Producer, TransactionAbortedError

KAFKA = os.environ.get("KAFKA", "localhost:9092")
GROUP = "invoices"


def invoice(order: bytes | None) -> bytes:
    """The invoice of an order: always the same for one order, and without side effects."""
    count, _, what = (order or b"").partition(b" ")
    return b"%d pence for %s" % (int(count) * 20, what)


async def rewind(consumer: AIOKafkaConsumer, producer: Producer, places: list[TopicPartition]) -> None:
    """Continue after the last committed transaction."""
    committed = await producer.committed_offsets(GROUP, places)
    # Not seek_to_beginning(): it has no effect on a consumer that is looking up the end of the partition at that moment.
    beginnings = await consumer.beginning_offsets(places)
    for place in places:
        consumer.seek(place, committed[place].offset if place in committed else beginnings[place])


async def copy(consumer: AIOKafkaConsumer, producer: Producer, places: list[TopicPartition]) -> None:
    """Turn orders into invoices; never returns."""
    await producer.init_transactions()
    await rewind(consumer, producer, places)
    while True:
        found = await consumer.getmany(timeout_ms=1_000, max_records=500)
        orders = [order for some in found.values() for order in some]
        if not orders:
            continue
        try:
            async with producer.transaction() as tx:
                for order in orders:
                    await producer.send("invoices", invoice(order.value), key=order.key)
                tx.consumed(orders, GROUP)
        except TransactionAbortedError as error:
            # The consumer has advanced: without rewind() it would not return these orders again.
            if not error.retriable:
                raise
            print(f"repeating: {error}", file=sys.stderr)
            await rewind(consumer, producer, places)


async def main(numbers: list[int]) -> None:
    """Process these partitions of the orders."""
    places = [TopicPartition("orders", number) for number in numbers]
    name = "-".join(map(str, numbers))
    # auto_offset_reset="none": the program ends if orders were deleted, instead of skipping them.
    async with (
        AIOKafkaConsumer(
            bootstrap_servers=KAFKA, isolation_level="read_committed", auto_offset_reset="none"
        ) as consumer,
        Producer(KAFKA, transactional_id=f"invoices-of-{name}", close_timeout_ms=10_000) as producer,
    ):
        consumer.assign(places)
        await copy(consumer, producer, places)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(sorted(map(int, sys.argv[1:])) or [0]))

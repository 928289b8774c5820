"""Consume, transform, produce, exactly once: python examples/consume_transform_produce.py [partition ...].

Each record of the topic `orders` becomes one of the topic `invoices`, once, also when this program is killed between any
two lines, or brokers fail meanwhile:

* Invoices, and the offset of the order to go on with, are written in one transaction: all of it is there, or nothing.
* Where to go on is asked of Kafka, at the start and after an abort. `committed_offsets()` waits for a transaction that is
  still being ended; a consumer of its own group may be told the offset from before it.
* `init_transactions()` aborts what was left open under the transactional id, and shuts out whoever did, should it still
  run. So each partition has to belong to one transactional id for good: to run several of these programs, give each
  partitions of its own.

Orders are read, and invoices have to be read, with isolation_level="read_committed". Any other error ends the program: let
what runs it start it again.
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
    """What becomes of an order: the same each time, without effects anywhere else."""
    count, _, what = (order or b"").partition(b" ")
    return b"%d pence for %s" % (int(count) * 20, what)


async def rewind(consumer: AIOKafkaConsumer, producer: Producer, places: list[TopicPartition]) -> None:
    """Go on from where the last committed transaction ended."""
    committed = await producer.committed_offsets(GROUP, places)
    # Not seek_to_beginning(): a consumer that is looking for the end of the partition at that moment stays there.
    beginnings = await consumer.beginning_offsets(places)
    for place in places:
        consumer.seek(place, committed[place].offset if place in committed else beginnings[place])


async def copy(consumer: AIOKafkaConsumer, producer: Producer, places: list[TopicPartition]) -> None:
    """Turn orders into invoices, for ever."""
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
            # The consumer has gone on, and the same orders would not come again by themselves.
            if not error.retriable:
                raise
            print(f"once more: {error}", file=sys.stderr)
            await rewind(consumer, producer, places)


async def main(numbers: list[int]) -> None:
    """Work on these partitions of the orders."""
    places = [TopicPartition("orders", number) for number in numbers]
    name = "-".join(map(str, numbers))
    # auto_offset_reset="none": orders that are not there any more end the program, in place of being passed over.
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

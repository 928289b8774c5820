"""A consumer of an outbox that applies each event once: python examples/outbox_consumer.py [database file].

A relay sends each row at least once: after a failure a record may be there twice, with the same header
`aioproducer.outbox.id`. This program applies each event to its database (SQLite here) and notes the id in the same
transaction. So a copy is recognized, and so is an event that is read again because the program was killed before its
commit to Kafka.

It reads the topic `orders` and adds up the ordered items. It needs aiokafka.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from contextlib import closing

from aiokafka import AIOKafkaConsumer, ConsumerRecord

from aioproducer.outbox import ID_HEADER

KAFKA = os.environ.get("KAFKA", "localhost:9092")
SCHEMA = """
CREATE TABLE IF NOT EXISTS items (item TEXT PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS seen (id INTEGER PRIMARY KEY);
"""


def apply(database: sqlite3.Connection, record: ConsumerRecord) -> bool:
    """Apply one event in one transaction with its id; False if it is a copy."""
    number = int(dict(record.headers)[ID_HEADER])
    event = json.loads(record.value)
    with database:
        if database.execute("INSERT OR IGNORE INTO seen VALUES (?)", (number,)).rowcount == 0:
            return False
        database.execute(
            "INSERT INTO items VALUES (?, ?) ON CONFLICT (item) DO UPDATE SET count = count + excluded.count",
            (event["item"], event["count"]),
        )
    return True


async def main(path: str = "items.db") -> None:
    """Apply events without end."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SCHEMA)
        async with AIOKafkaConsumer(
            "orders",
            bootstrap_servers=KAFKA,
            group_id="items",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer:
            async for record in consumer:
                # A short transaction of SQLite; a longer one belongs in a thread.
                told = "applied" if apply(database, record) else "a copy"
                print(f"event {int(dict(record.headers)[ID_HEADER])}: {told}", flush=True)
                # After the transaction: an event is read again rather than left out.
                await consumer.commit()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

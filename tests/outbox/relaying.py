"""A program that relays an outbox until it is killed, and prints the lines of its log.

Its arguments are the bootstrap servers of Kafka, and the path of a SQLite database or the folder of the socket of PostgreSQL.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

from aioproducer import KafkaError, Producer, Record
from aioproducer.outbox import PostgresStore, Relay, SqliteStore, Store
from tools.postgres import USER


class Outlet:
    """It is asked for no letter: nothing is certain while the topic may not be read."""

    async def put(self, record: Record[Any, Any], error: KafkaError) -> None:
        """The line makes the test fail."""
        print(f"a dead letter: {record} {error}", flush=True)


async def store_at(place: str) -> Store:
    """The store of a database."""
    if place.endswith(".db"):
        return SqliteStore(place)
    import asyncpg

    pool = asyncpg.create_pool(host=place, user=USER, database="postgres", min_size=0, max_size=2)
    return PostgresStore(await pool)


async def main(servers: str, place: str) -> None:
    """Relay without end."""
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    async with Producer(
        servers,
        gapless=True,
        # The rows of one read leave in one batch, also on a busy machine: none is sent behind one that has failed.
        linger_ms=300,
        linger_awaited=True,
        retry_backoff_ms=5,
        retry_backoff_max_ms=20,
    ) as producer:
        await Relay(producer, await store_at(place), poll=0.02, dead_letters=Outlet()).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

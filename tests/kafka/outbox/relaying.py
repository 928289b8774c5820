"""A program that relays an outbox in PostgreSQL until it is killed.

Its arguments are the bootstrap servers of Kafka and the folder of the socket of PostgreSQL.
"""

from __future__ import annotations

import asyncio
import sys

import asyncpg

from aioproducer import Producer
from aioproducer.outbox import PostgresStore, Relay
from tools.postgres import USER


async def main(servers: str, folder: str) -> None:
    """Relay without end, also while the server of the database is down at the start."""
    # Connections are made when they are needed: nothing here waits for the server.
    pool = asyncpg.create_pool(host=folder, user=USER, database="postgres", min_size=0, max_size=2)
    async with (
        pool,
        Producer(servers, gapless=True, delivery_timeout_ms=8_000, request_timeout_ms=3_000) as producer,
    ):
        print("relaying", flush=True)
        await Relay(producer, PostgresStore(pool, channel="new_rows"), batch=200, poll=0.2).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

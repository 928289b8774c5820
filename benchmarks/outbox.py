"""Rows of an outbox in PostgreSQL that become records of a real Kafka, each second; beside a relay that awaits each record.

python -m benchmarks.outbox [--rows N] [--check]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import asyncpg

from aioproducer import Producer
from aioproducer.outbox import PostgresStore, Relay
from tools.kafka_cluster import KafkaCluster
from tools.postgres import Postgres

TOPIC: Final = "outbox"
PARTITIONS: Final = 6
# The goals: rows each second, and times the rate of the relay that awaits each record.
RATE: Final = 20_000
RATIO: Final = 10.0
_FILL: Final = f"""\
INSERT INTO outbox (topic, value, "key")
SELECT '{TOPIC}', repeat('x', 100)::bytea, ('key ' || number % 1000)::bytea FROM generate_series(1, $1::integer) AS number"""  # noqa: S608

Measured = Callable[[Producer[Any, Any], PostgresStore, int], Awaitable[None]]


async def relayed(producer: Producer[Any, Any], store: PostgresStore, rows: int) -> None:
    """By the relay."""
    async with Relay(producer, store) as relay:
        while relay.stats().deleted < rows:  # noqa: ASYNC110  # looked at from outside
            await asyncio.sleep(0.005)


async def awaited(producer: Producer[Any, Any], store: PostgresStore, rows: int) -> None:
    """By a loop that awaits each record, and reads and deletes a thousand rows at once as well."""
    await store.acquire()
    while found := await store.read(min(rows, 1000), ()):
        for row in found:
            await producer.send_and_wait(row.topic, row.value, key=row.key)
        await store.delete([row.id for row in found])
    await store.release()


async def _rate(measured: Measured, rows: int, kafka: KafkaCluster, server: Postgres) -> float:
    async with (
        asyncpg.create_pool(**server.address, min_size=1, max_size=2) as pool,
        Producer(kafka.bootstrap_servers, gapless=True) as producer,
    ):
        store = PostgresStore(pool)
        await pool.execute(store.schema_sql())
        # The first rows warm all parts.
        for count in (min(rows, 1000), rows):
            await pool.execute(_FILL, count)
            await pool.execute("VACUUM ANALYZE outbox")
            began = time.perf_counter()
            await measured(producer, store, count)
            seconds = time.perf_counter() - began
    return rows / seconds


def measure(rows: int) -> tuple[float, float]:
    """The rows each second of the relay, and of the one that awaits each record."""
    with KafkaCluster(1) as kafka, Postgres() as server:
        kafka.create_topic(TOPIC, PARTITIONS)
        each = asyncio.run(_rate(awaited, max(1, rows // 50), kafka, server))
        return asyncio.run(_rate(relayed, rows, kafka, server)), each


def main() -> int:
    """0; 1 when a goal is missed and `--check` was given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outbox", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="of the relay (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a goal is missed")
    asked = parser.parse_args()
    rate, each = measure(asked.rows)
    print(f"relay: {rate:,.0f} rows/s; awaiting each record: {each:,.0f} rows/s; {rate / each:.1f} times")
    print(f"goals: at least {RATE:,} rows/s, and {RATIO:.0f} times")
    return int(asked.check and not (rate >= RATE and rate / each >= RATIO))


if __name__ == "__main__":
    sys.exit(main())

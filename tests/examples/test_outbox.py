"""The examples of an outbox: SQLAlchemy beside a relay, and a consumer that recognizes copies, also when it is killed."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from aioproducer import Producer
from aioproducer.outbox import ID_HEADER
from tests.examples.programs import PYTHON, environment, example
from tests.kafka.reading import read_all
from tests.repo.source import ROOT
from tools.kafka_cluster import KafkaCluster
from tools.postgres import USER, Postgres

pytestmark = pytest.mark.kafka
LIMIT = 60.0


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A server for the program."""
    with Postgres() as server:
        yield server


async def started(
    kafka: KafkaCluster, program: str, *arguments: str, **variables: str
) -> asyncio.subprocess.Process:
    """The program, whose lines can be read."""
    return await asyncio.create_subprocess_exec(
        *PYTHON, example(program), *arguments,
        cwd=ROOT, env=environment(kafka) | variables, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def lines(process: asyncio.subprocess.Process, count: int) -> list[str]:
    """The next lines of a program."""
    assert process.stdout is not None
    async with asyncio.timeout(LIMIT):
        return [(await process.stdout.readline()).decode().strip() for _ in range(count)]


async def test_both_examples(real_kafka: KafkaCluster, postgres: Postgres, tmp_path: Path) -> None:
    """Two of three orders are placed and applied once, although the consumer is killed and a record is there twice."""
    # The pages of the documents use a topic of this name as well, on the same Kafka.
    with contextlib.suppress(KafkaException):
        real_kafka.delete_topic("orders")
    real_kafka.create_topic("orders", 1)
    url = f"postgresql://{USER}@/postgres?host={postgres.address['host']}"
    program = await started(real_kafka, "outbox_sqlalchemy.py", DATABASE=url)
    told = await lines(program, 4)
    assert await program.wait() == 0
    assert told[0] == "order 1 is placed"
    assert told[1].startswith("no order: ")
    assert told[2].startswith("order ")
    assert told[3] == "2 events are relayed"
    records = await asyncio.to_thread(read_all, real_kafka.bootstrap_servers, "orders")
    first, second = records
    assert [record.key for record in records] == [b"alice", b"alice"]

    database = tmp_path / "items.db"
    consumer = await started(real_kafka, "outbox_consumer.py", str(database))
    told = await lines(consumer, 1)
    consumer.kill()
    await consumer.wait()
    async with Producer(real_kafka.bootstrap_servers) as producer:
        await producer.send_and_wait("orders", first.value, headers=first.headers)
    consumer = await started(real_kafka, "outbox_consumer.py", str(database))
    copies = 0
    while copies < 1 or f"event {int(dict(second.headers)[ID_HEADER] or b'')}: applied" not in told:
        told += await lines(consumer, 1)
        copies = sum(line.endswith("a copy") for line in told)
    consumer.kill()
    await consumer.wait()
    with closing(sqlite3.connect(database)) as found:
        assert dict(found.execute("SELECT item, count FROM items")) == {"apple": 2, "plum": 3}

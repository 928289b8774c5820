"""This library against brokers of other projects: the mock cluster of librdkafka, and franz-go's kfake.

librdkafka's answers ApiVersions 3 with a broken array, Metadata with a byte behind its last field, and Produce also with
acks=0.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition

from aioproducer import Outcome, Producer
from tools.kfake_program import kfake

LIMIT = 20.0
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
COUNT = 60
PARTITIONS = 4
QUICK: dict[str, Any] = {"max_block_ms": 5_000, "request_timeout_ms": 3_000, "delivery_timeout_ms": 8_000}

pytestmark = pytest.mark.timeout(90)


def librdkafkas() -> list[str]:
    """The command that starts the mock cluster of librdkafka."""
    return [sys.executable, "-m", "tests.testing.broker.librdkafkas_cluster"]


def franz_gos() -> list[str]:
    """The command that starts kfake."""
    return [str(kfake())]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(librdkafkas, id="librdkafka"),
        pytest.param(franz_gos, id="franz-go", marks=pytest.mark.kafka),
    ],
)
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """The addresses of three brokers."""
    command = request.param()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as cluster:
        assert cluster.stdin is not None
        assert cluster.stdout is not None
        try:
            addresses = cluster.stdout.readline().strip()
            assert addresses, "the cluster did not start"
            yield addresses
        finally:
            cluster.stdin.close()
            assert cluster.wait(LIMIT) == 0


def read_back(servers: str, topic: str, count: int) -> list[tuple[int | None, int | None, bytes | None]]:
    """This number of records of a topic, as librdkafka's consumer reads them."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "g", "check.crcs": True, "enable.auto.commit": False}
    )
    try:
        consumer.assign([ConfluentPartition(topic, index, 0) for index in range(PARTITIONS)])
        found: list[tuple[int | None, int | None, bytes | None]] = []
        while len(found) < count:
            got = consumer.consume(count, LIMIT)
            assert got, f"nothing more after {len(found)} records"
            assert all(message.error() is None for message in got)
            found += [(message.partition(), message.offset(), message.value()) for message in got]
        return sorted(found)
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="idempotent"),
        pytest.param({"acks": "all", "enable_idempotence": False}, id="all"),
        pytest.param({"acks": 1, "enable_idempotence": False}, id="1"),
        pytest.param({"acks": 0, "enable_idempotence": False}, id="0"),
    ],
)
async def test_every_record_is_where_it_was_said_to_be(
    servers: str, settings: dict[str, Any], codec: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Each codec, idempotent or not, with every acks; the log has no warning."""
    topic = f"t-{codec}-{settings.get('acks')}"
    async with Producer(servers, client_id=topic, compression_type=codec, **QUICK, **settings) as producer:
        sent = {}
        for number in range(COUNT):
            value = b"value %d" % number
            sent[value] = await producer.send(topic, value, partition=number % PARTITIONS)
        report = await producer.flush()
        assert (report.acked, report.not_written, report.unknown) == (COUNT, 0, 0)
        found = await asyncio.to_thread(read_back, servers, topic, COUNT)
        assert sorted(value for _, _, value in found if value is not None) == sorted(sent)
        if settings.get("acks") != 0:
            places = {value: (partition, offset) for partition, offset, value in found}
            for value, delivery in sent.items():
                metadata = await delivery
                assert places[value] == (metadata.partition, metadata.offset)
    # A producer of another test that was not closed may log meanwhile.
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [line for line in lines if line.startswith(topic)] == []


async def test_transactions(servers: str) -> None:
    """Transactions in its old versions: committed, with offsets, and aborted."""
    async with Producer(servers, transactional_id="mover", **QUICK) as producer:
        async with producer.transaction():
            await producer.send("source", b"0", partition=0)
        async with producer.transaction() as transaction:
            delivery = await producer.send("moved", b"1", partition=0)
            transaction.send_offsets({("source", 0): 1}, "movers")
        assert await delivery.wait(LIMIT) is Outcome.ACKED
        await producer.begin_transaction()
        dropped = await producer.send("moved", b"2", partition=1)
        await producer.abort_transaction()
        assert await dropped.wait(LIMIT) is not Outcome.PENDING
        async with producer.transaction():
            after = await producer.send("moved", b"3", partition=2)
        assert await after.wait(LIMIT) is Outcome.ACKED

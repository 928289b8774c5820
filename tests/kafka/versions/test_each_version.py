"""The producer on each line of Kafka since 0.11: records of every kind, a restart, transactions, a takeover."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any, Final, Literal, get_args

import pytest

from aioproducer import Outcome, Producer, ProducerFencedError
from tests.judge.judge import judge
from tests.kafka.kinds import log_of, send_all_kinds
from tests.kafka.reading import read_all
from tests.kafka.versions.brokers import VERSIONS, broker_of
from tools.kafka_cluster import KafkaCluster
from tools.kafka_jars import release

pytestmark = pytest.mark.kafka

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
_ZSTD: Final = (2, 1)
_READS_GROUPS: Final = (2, 5)
COUNT: Final = 2_000
LIMIT: Final = 60.0


@pytest.fixture(scope="module", params=VERSIONS)
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A broker of this version."""
    with broker_of(request.param) as cluster:
        yield cluster


async def _committed(kafka: KafkaCluster, topic: str) -> list[bytes | None]:
    read = await asyncio.to_thread(read_all, kafka.bootstrap_servers, topic, isolation="read_committed")
    return [record.value for record in read]


@pytest.mark.parametrize("codec", get_args(Codec))
async def test_idempotent_records_are_there_once_and_in_order(kafka: KafkaCluster, codec: Codec) -> None:
    """Keys, headers, times and codecs, byte for byte; before 2.1 zstd is refused, and nothing is written."""
    topic = await asyncio.to_thread(kafka.create_topic, f"idempotent-{codec}", 3)
    settings: dict[str, Any] = {"batch_size": 4096, "linger_ms": 1, "compression_type": codec}
    async with Producer(kafka.bootstrap_servers, **settings) as producer:
        history = await send_all_kinds(producer, topic, random.Random(codec), COUNT)
    refused = codec == "zstd" and release(kafka.version) < _ZSTD
    expected = Outcome.NOT_WRITTEN if refused else Outcome.ACKED
    assert {record.outcome for record in history} == {expected}
    assert judge(history, await log_of(kafka, topic)) == []


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_records_without_idempotence(kafka: KafkaCluster, acks: Any) -> None:
    """Each `acks`."""
    topic = await asyncio.to_thread(kafka.create_topic, f"plain-{acks}", 2)
    async with Producer(kafka.bootstrap_servers, acks=acks, enable_idempotence=False) as producer:
        for number in range(COUNT):
            await producer.send(topic, b"%d" % number, partition=number % 2)
        report = await producer.flush()
    assert (report.acked, report.not_written, report.unknown) == (COUNT, 0, 0)
    values = [record.value for record in await asyncio.to_thread(read_all, kafka.bootstrap_servers, topic)]
    assert values == [b"%d" % number for part in (0, 1) for number in range(part, COUNT, 2)]


async def test_a_topic_that_is_made_again(kafka: KafkaCluster) -> None:
    """The first record of the new topic has offset 0."""
    topic = await asyncio.to_thread(kafka.create_topic, "again", 1)
    async with Producer(kafka.bootstrap_servers) as producer:
        await producer.send_and_wait(topic, b"old")
        await asyncio.to_thread(kafka.delete_topic, topic)
        await asyncio.to_thread(_made, kafka, topic)
        metadata = await producer.send_and_wait(topic, b"new")
    assert metadata.offset == 0
    assert [one.value for one in await asyncio.to_thread(read_all, kafka.bootstrap_servers, topic)] == [
        b"new"
    ]


def _made(kafka: KafkaCluster, topic: str) -> None:
    """Create a topic whose former files may not be gone yet."""
    kafka._wait(lambda: bool(kafka.create_topic(topic, 1)), LIMIT, f"topic {topic} could not be created")


async def test_a_broker_that_is_killed_and_comes_back(kafka: KafkaCluster) -> None:
    """The records of a producer that sends meanwhile are there once, and in order."""
    topic = await asyncio.to_thread(kafka.create_topic, "killed", 1)
    (node,) = kafka.nodes
    async with Producer(kafka.bootstrap_servers, linger_ms=0) as producer:
        await producer.send_and_wait(topic, b"0")
        sent = [await producer.send(topic, b"%d" % number) for number in range(1, COUNT // 2)]
        await asyncio.to_thread(node.kill)
        sent += [await producer.send(topic, b"%d" % number) for number in range(COUNT // 2, COUNT)]
        # In this thread: a broker ends with the thread that has started it.
        node.start()
        kafka.wait_ready()
        async with asyncio.timeout(LIMIT):
            await asyncio.gather(*sent)
    values = [record.value for record in await asyncio.to_thread(read_all, kafka.bootstrap_servers, topic)]
    assert values == [b"%d" % number for number in range(COUNT)]


async def test_transactions(kafka: KafkaCluster) -> None:
    """Committed ones are read, aborted ones are not, and offsets are committed with their transaction."""
    topic = await asyncio.to_thread(kafka.create_topic, "transactions", 2)
    async with Producer(kafka.bootstrap_servers, transactional_id="mover") as producer:
        for number in range(5):
            async with producer.transaction() as transaction:
                await producer.send(topic, b"%d" % number, partition=0)
                await producer.send(topic, b"%d" % number, partition=1)
                transaction.send_offsets({("again", 0): number + 1}, "movers")
        await producer.begin_transaction()
        await producer.send(topic, b"aborted", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(topic, b"5", partition=0)
        if release(kafka.version) >= _READS_GROUPS:
            committed = await producer.committed_offsets("movers", [("again", 0)])
            assert [(*where, one.offset) for where, one in committed.items()] == [("again", 0, 5)]
    values = [b"%d" % number for number in range(5)]
    assert await _committed(kafka, topic) == [*values, b"5", *values]


async def test_a_takeover_is_final(kafka: KafkaCluster) -> None:
    """A second producer with the same id fences the first one, whose open transaction is aborted."""
    topic = await asyncio.to_thread(kafka.create_topic, "takeover", 1)
    first = Producer(kafka.bootstrap_servers, transactional_id="shared")
    second = Producer(kafka.bootstrap_servers, transactional_id="shared")
    async with first:
        await first.init_transactions()
        await first.begin_transaction()
        await (await first.send(topic, b"first")).wait(LIMIT)
        async with second, second.transaction():
            await second.send(topic, b"second")
        with pytest.raises(ProducerFencedError):
            await first.commit_transaction()
    assert await _committed(kafka, topic) == [b"second"]

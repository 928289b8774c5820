"""Marks on a real Kafka that has forgotten their offsets, or whose log was compacted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.errors import StreamingQueryException

from aioproducer import OffsetAndMetadata, Producer, StateError, TopicPartition, committed_offsets
from aioproducer.ledgers import Ledger
from aioproducer.spark.exactly_once.ledger import ledger_topic, note_of, partition_of
from aioproducer.spark.exactly_once.markers import Place
from aioproducer.spark.options import LEDGER, read_options
from aioproducer.spark.preflight import check_kafka
from tests.effort import PROOF
from tests.kafka.reading import read_all
from tests.spark.exactly_once.attempts import epoch_written, forgotten
from tests.spark.exactly_once.epochs import FILES, ROWS, folder_of_epochs
from tests.spark.rows import committed, forget_last_commit, numbers, once, write_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tools.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka]

EXACTLY: Final = {"delivery": "exactly-once"}
WITHOUT: Final = {"ledger.topic": "none"}
# The shortest retention that Kafka allows is a minute.
FORGETFUL: Final = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "100",
}

Forget = Callable[[str, str], Awaitable[None]]


def forget_groups(servers: str, prefix: str) -> None:
    """The groups of these names are deleted, with their offsets."""
    admin = AdminClient({"bootstrap.servers": servers})
    names = [group.group_id for group in admin.list_consumer_groups().result().valid]
    for name in names:
        if name.startswith(prefix):
            admin.delete_consumer_groups([name])[name].result()


@pytest.fixture(scope="module")
def forgetful() -> Iterator[KafkaCluster]:
    """A Kafka whose groups forget their offsets after a minute."""
    from tools.kafka_cluster import KafkaCluster
    from tools.kafka_node import QUICK_START

    with KafkaCluster(1, settings=FORGETFUL, java_options=QUICK_START) as kafka:
        yield kafka


@pytest.fixture(params=["deleted", "expired"] if PROOF else ["deleted"])
def place(request: pytest.FixtureRequest) -> tuple[KafkaCluster, Forget]:
    """A Kafka, and how it forgets the offset of a group for a topic."""
    if request.param == "deleted":
        kafka = request.getfixturevalue("real_kafka")

        async def forget(group: str, topic: str) -> None:
            del topic
            await anyio.to_thread.run_sync(forget_groups, kafka.bootstrap_servers, group)

    else:
        kafka = request.getfixturevalue("forgetful")

        async def forget(group: str, topic: str) -> None:
            where = TopicPartition(topic, 0)
            while await committed_offsets(group, [where], kafka.bootstrap_servers):  # noqa: ASYNC110  # another process
                await anyio.sleep(0.5)

    return kafka, forget


@pytest.mark.parametrize(("more", "copies"), [({}, 1), (WITHOUT, 2)], ids=["ledger", "offsets only"])
async def test_an_epoch_that_is_repeated_after_its_offset_is_forgotten(
    place: tuple[KafkaCluster, Forget], more: dict[str, str], copies: int
) -> None:
    """Without a ledger it is doubled."""
    kafka, forget = place
    topic = kafka.create_topic(f"forgotten-{'-'.join(more.values())}-{kafka.nodes[0].ports.broker}")
    options = read_options(
        {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic} | EXACTLY | more
    )
    await anyio.to_thread.run_sync(lambda: check_kafka(options, is_stream=True))
    for epoch in range(3):
        await epoch_written(options, epoch, b"%d" % epoch, name=topic)
    await forget(f"aioproducer-spark-{topic}-0", topic)
    assert (await epoch_written(options, 2, b"2", name=topic)).skipped == 2 - copies
    await epoch_written(options, 3, b"3", name=topic)
    found = read_all(kafka.bootstrap_servers, topic, isolation="read_committed")
    assert [record.value for record in found] == [b"0", b"1", *[b"2"] * copies, b"3"]
    await forgotten(options)


async def test_an_epoch_whose_topic_was_created_again(real_kafka: KafkaCluster) -> None:
    """Kafka deletes the offsets with the topic, and the ledger has the mark: nothing is taken for written."""
    name = f"again-{real_kafka.nodes[0].ports.broker}"
    topic = real_kafka.create_topic(name)
    options = read_options(
        {"kafka.bootstrap.servers": real_kafka.bootstrap_servers, "topic": topic} | EXACTLY
    )
    await anyio.to_thread.run_sync(lambda: check_kafka(options, is_stream=True))
    await epoch_written(options, 0, b"0", name=topic)
    admin = AdminClient({"bootstrap.servers": real_kafka.bootstrap_servers})
    await anyio.to_thread.run_sync(admin.delete_topics([topic])[topic].result)
    await anyio.to_thread.run_sync(admin.create_topics([NewTopic(topic, 1, 1)])[topic].result)
    with pytest.raises(StateError, match="which was deleted and created again"):
        await epoch_written(options, 0, b"0", name=topic)
    assert not read_all(real_kafka.bootstrap_servers, topic, isolation="read_committed")
    await forgotten(options)


if PROOF:

    async def test_marks_of_a_compacted_log(forgetful: KafkaCluster) -> None:
        """The cleaner has removed most records, and ends of their transactions: the newest committed mark is found."""
        ledger = forgetful.create_topic(
            "compacted", 16, cleanup_policy="compact", segment_bytes=1 << 20, min_cleanable_dirty_ratio=0.01
        )
        place = Place("aioproducer-spark-compacted-0", "rows", ledger)
        where = partition_of(place.key)
        servers = forgetful.bootstrap_servers
        async with Producer(servers, transactional_id=place.name) as producer:
            await producer.init_transactions()
            for epoch in range(600):
                await producer.begin_transaction()
                await place.keep(producer, OffsetAndMetadata(epoch, "x" * 3_000))
                await producer.send_and_wait(ledger, b"y" * 3_000, key=b"other", partition=where)
                # Every third one is aborted, and the last one is.
                await (producer.abort_transaction() if epoch % 3 == 2 else producer.commit_transaction())
            async with Ledger(producer.config, ledger_topic(ledger)) as reading, asyncio.timeout(120):
                while len(read_all(servers, ledger, isolation="read_committed")) > 500:  # noqa: ASYNC110  # another process
                    await anyio.sleep(0.5)
                found = await reading.last_values([where], place.key.__eq__)
        assert note_of(found[place.key]).offset == 598


def test_a_query_that_stood_still(
    spark: SparkSession, real_kafka: KafkaCluster, options: dict[str, str], tmp_path: Path
) -> None:
    """The driver creates the ledger; the last epoch is repeated after brokers have forgotten all offsets of the query.

    When the ledger is gone as well, the query refuses.
    """
    source = folder_of_epochs(tmp_path / "source")
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(source))
    df = lines.repartition(2, "value").selectExpr("value as key", "value")
    exactly = options | EXACTLY | {"ledger.topic": f"ledger-of-{options['topic']}"}
    write_stream(df, exactly, tmp_path / "checkpoint")
    for _ in range(2):
        forget_last_commit(tmp_path / "checkpoint")
        forget_groups(real_kafka.bootstrap_servers, "aioproducer-spark-")
        write_stream(df, exactly, tmp_path / "checkpoint")
    assert numbers(committed(options)) == once(FILES * ROWS)
    forget_last_commit(tmp_path / "checkpoint")
    forget_groups(real_kafka.bootstrap_servers, "aioproducer-spark-")
    with pytest.raises(StreamingQueryException, match="marks were lost"):
        write_stream(df, exactly | {"ledger.topic": LEDGER}, tmp_path / "checkpoint")
    assert numbers(committed(options)) == once(FILES * ROWS)

"""Rows that cannot be written, with on.error: they become dead letters in the transaction of the other rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from aioproducer import DeliveryError, KafkaError
from aioproducer._net.cluster import topic_checks
from aioproducer.spark.exactly_once import rounds
from aioproducer.spark.exactly_once.jobs import Job, write_and_leave_open
from aioproducer.spark.exactly_once.rounds import KeptRows
from aioproducer.spark.facts import TaskFacts
from aioproducer.spark.options import SinkOptions
from aioproducer.spark.shipping import inspection
from aioproducer.spark.shipping.columns import Layout
from aioproducer.spark.shipping.shipment import Written
from aioproducer.testing import EmbeddedKafka
from tests.spark.exactly_once.attempts import (
    TOPIC,
    create_ledger,
    delivery_of,
    forgotten,
    options_for,
    states,
    written_by_a_task,
)

DEAD = "dead"
SMALL = "small"
SCHEMA = StructType(
    [
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
    ]
)
KEYED = StructType(
    [
        StructField("value", BinaryType()),
        StructField("key", BinaryType()),
        StructField("topic", StringType()),
    ]
)
BIG = b"x" * 5_000
Row = tuple[bytes, str | None, int | None]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short wait for a missing topic that no broker creates."""
    monkeypatch.setattr(inspection, "SECONDS_TO_MAKE_A_TOPIC", 0.01)
    monkeypatch.setattr(topic_checks, "MADE_JUST_NOW", 0.0)


@pytest.fixture
async def kafka() -> AsyncIterator[EmbeddedKafka]:
    """The test creates the topics: for rows, for dead letters, and one whose records may have 2,000 bytes."""
    async with EmbeddedKafka(2, auto_create_topics=False) as kafka:
        create_ledger(kafka)
        for name, partitions, most in ((TOPIC, 1, 1_000_000), (DEAD, 1, 1_000_000), (SMALL, 2, 2_000)):
            kafka.create_topic(name, partitions, max_message_bytes=most)
        yield kafka


def options_of(kafka: EmbeddedKafka, way: str, **more: str) -> SinkOptions:
    """The options for rows that name their topics."""
    given = {"delivery": delivery_of(way), "on.error": DEAD}
    found = options_for(kafka, **given, **{"marker.topic": TOPIC}, **more)
    return attrs.evolve(found, topic=None)


async def write(way: str, options: SinkOptions, *batches: list[Row]) -> Written:
    """Write as a task of Spark does; at the end the open transaction is committed."""
    layout = Layout.of(SCHEMA, options)
    rows = iter([_batch(batch) for batch in batches])
    return await written_by_a_task(way, rows, layout, options)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    values, topics, partitions = zip(*rows, strict=True)
    columns = [pa.array(values, pa.binary()), pa.array(topics, pa.string()), pa.array(partitions, pa.int32())]
    return pa.RecordBatch.from_arrays(columns, names=["value", "topic", "partition"])


def values(kafka: EmbeddedKafka, topic: str) -> list[bytes | None]:
    """The values that a reader of committed records finds."""
    return [record.value for record in kafka.records(topic)]


def reasons(kafka: EmbeddedKafka) -> dict[bytes, str]:
    """The reason of each dead letter, by the first byte of its value."""
    found = {}
    for letter in kafka.records(DEAD):
        headers = dict(letter.headers)
        found[(letter.value or b"")[:1]] = (headers["aioproducer.error"] or b"").decode()
    return found


async def test_what_is_known_before_it_is_sent(
    kafka: EmbeddedKafka, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too large, no topic, a missing topic, an invalid name, a missing partition: one round is enough."""
    monkeypatch.setattr(rounds, "MOST_ROUNDS", 1)
    options = options_of(kafka, way, **{"kafka.max.request.size": "4000", "kafka.max.block.ms": "5000"})
    written = await write(
        way,
        options,
        [(b"a", TOPIC, None), (BIG, TOPIC, None), (b"1", None, None), (b"b", SMALL, 1)],
        [(b"2", "missing", None), (b"3", SMALL, 2), (b"4", "no such name", None), (b"5", SMALL, -1)],
        [(b"c", TOPIC, 0), (b"6", "missing", None)],
    )
    assert (written.rows, written.dead_letters) == (3, 7)
    assert (values(kafka, TOPIC), values(kafka, SMALL)) == ([b"a", b"c"], [b"b"])
    found = reasons(kafka)
    assert "max_request_size is 4000" in found[b"x"]
    assert "the topic is null" in found[b"1"]
    assert "missing" in found[b"2"]
    assert "missing" in found[b"6"]
    assert "the partition does not exist: the topic has 2" in found[b"3"]
    assert "no such name" in found[b"4"]
    assert b"5" in found
    await forgotten(options)


async def test_a_topic_that_brokers_make_when_they_are_asked(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic exists by the time of the write: no row is set aside."""
    monkeypatch.setattr(inspection, "SECONDS_TO_MAKE_A_TOPIC", 15.0)
    async with EmbeddedKafka(2) as kafka:
        create_ledger(kafka)
        for name in (TOPIC, DEAD):
            kafka.create_topic(name, 1)
        options = options_of(kafka, way)
        written = await write(way, options, [(b"a", "new", None)])
        assert (written.rows, written.dead_letters) == (1, 0)
        assert values(kafka, "new") == [b"a"]
        await forgotten(options)


async def test_what_the_broker_refuses(kafka: EmbeddedKafka, way: str) -> None:
    """The transaction is aborted, and repeated without such rows: the others are there once, and the letters too."""
    options = options_of(kafka, way)
    written = await write(
        way,
        options,
        [(b"a", SMALL, 0), (b"b", TOPIC, None), (b"1" + BIG, SMALL, 0), (b"c", SMALL, 0)],
        [(b"2" + BIG, SMALL, 1), (b"d", SMALL, 1), (b"3", None, None), (b"4" + BIG, SMALL, 0)],
    )
    assert (written.rows, written.dead_letters) == (4, 4)
    assert sorted(map(str, values(kafka, SMALL))) == ["b'a'", "b'c'", "b'd'"]
    assert values(kafka, TOPIC) == [b"b"]
    assert sorted(reasons(kafka)) == [b"1", b"2", b"3", b"4"]
    assert len(kafka.records(DEAD)) == 4
    await forgotten(options)


@pytest.mark.parametrize("in_one", [True, False], ids=["one Arrow batch", "an Arrow batch each"])
async def test_rows_beside_a_refused_one(kafka: EmbeddedKafka, way: str, in_one: bool) -> None:
    """The broker refuses a batch of Kafka, and names the row at fault: the others are written, in their Arrow batches or not."""
    options = options_of(kafka, way, **{"kafka.linger.ms": "50"})
    kafka.create_topic("compacted", 1, cleanup_policy="compact")
    keys = [b"1", b"2", None, b"4", b"5", None]
    values_of = [b"a", b"b", b"wrong", b"c", b"d", b"too"]
    columns = [
        pa.array(values_of, pa.binary()),
        pa.array(keys, pa.binary()),
        pa.array(["compacted"] * len(keys), pa.string()),
    ]
    rows = pa.RecordBatch.from_arrays(columns, names=["value", "key", "topic"])
    batches = [rows] if in_one else [rows.slice(at, 1) for at in range(len(rows))]
    layout = Layout.of(KEYED, options)
    written = await written_by_a_task(way, iter(batches), layout, options)
    assert (written.rows, written.dead_letters) == (4, 2)
    # A count of the rows that were written, at their first try or at a later one.
    assert written.bytes == sum(map(len, [b"1a", b"2b", b"4c", b"5d"]))
    assert sorted(map(str, values(kafka, "compacted"))) == ["b'a'", "b'b'", "b'c'", "b'd'"]
    assert sorted(reasons(kafka)) == [b"t", b"w"]
    assert all("without key" in reason for reason in reasons(kafka).values())
    await forgotten(options)


async def test_the_error_names_the_row_at_fault(kafka: EmbeddedKafka, way: str) -> None:
    """Not one that was only in the same batch of Kafka."""
    kafka.create_topic("compacted", 1, cleanup_policy="compact")
    options = options_for(kafka, delivery=delivery_of(way), **{"marker.topic": TOPIC})
    options = attrs.evolve(options, topic="compacted")
    columns = [pa.array([b"a", b"b", b"c"], pa.binary()), pa.array([b"1", b"2", None], pa.binary())]
    batch = pa.RecordBatch.from_arrays(columns, names=["value", "key"])
    layout = Layout.of(KEYED, options)
    with pytest.raises(DeliveryError, match="without key"):
        await written_by_a_task(way, iter([batch]), layout, options)
    assert values(kafka, "compacted") == []
    await forgotten(options)


async def test_a_job_that_is_aborted_while_an_attempt_begins_again(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two of its transactions the attempt has none open, and is fenced nevertheless: none of it stays open."""
    options = options_of(kafka, "job")
    job = await asyncio.to_thread(Job.of(options).begin)
    whole = rounds._write
    tries = iter([lambda: None, job.abort])

    def aborted_before_the_second(*given: Any) -> Written:
        next(tries)()
        return whole(*given)

    monkeypatch.setattr(rounds, "_write", aborted_before_the_second)
    batches = iter([_batch([(b"a", TOPIC, None), (b"1" + BIG, SMALL, 0)])])
    task = TaskFacts(0, 1, None, None, speculation=False)
    with pytest.raises(KafkaError):
        await asyncio.to_thread(write_and_leave_open, batches, Layout.of(SCHEMA, options), job, task)
    assert "Ongoing" not in await states(kafka)
    assert next(tries, None) is None
    await forgotten(options)


async def test_an_attempt_that_finds_its_mark_writes_no_dead_letters(kafka: EmbeddedKafka) -> None:
    """The letters were committed with the mark."""
    options = options_of(kafka, "epoch")
    for _ in range(2):
        written = await write(
            "epoch", options, [(b"a", SMALL, 0), (b"1" + BIG, SMALL, 0), (b"2", None, None)]
        )
    assert (written.skipped, written.dead_letters) == (3, 0)
    assert values(kafka, SMALL) == [b"a"]
    assert len(kafka.records(DEAD)) == 2
    await forgotten(options)


async def test_more_rounds_than_are_worth_it(kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task ends with an advice, and no row is visible."""
    monkeypatch.setattr(rounds, "MOST_ROUNDS", 2)
    options = options_of(kafka, "epoch")
    rows: list[Row] = [(b"%d" % at + BIG, SMALL, 0) for at in range(5)]
    with pytest.raises(DeliveryError, match=r"kafka\.max\.request\.size no larger than"):
        await write("epoch", options, *([row] for row in rows))
    assert (values(kafka, SMALL), values(kafka, DEAD)) == ([], [])
    await forgotten(options)


async def test_other_failures_fail_the_task(kafka: EmbeddedKafka, way: str) -> None:
    """The failures are not those of a row."""
    options = options_of(kafka, way)
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Produce", times=None)
    with pytest.raises(DeliveryError, match="rows of an Arrow batch were not written"):
        await write(way, options, [(b"a", SMALL, 0)])
    assert values(kafka, DEAD) == []
    await forgotten(options)


def test_rows_are_kept_from_the_first() -> None:
    """The rows are kept also where they were requested only in part before."""
    source: list[Any] = [_batch([(b"%d" % at, "t", at)]) for at in range(4)]
    kept = KeptRows(iter(source))
    first = iter(kept)
    assert [next(first), next(first)] == source[:2]
    first.close()  # type: ignore[attr-defined]
    assert list(kept) == source
    assert list(kept) == source

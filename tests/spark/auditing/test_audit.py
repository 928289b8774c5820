"""The audit: a sound topic is called clean, and each kind of damage is found and named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from aioproducer import Producer, Record
from aioproducer.spark import audit
from aioproducer.spark.auditing.marks import marked, marks_of
from aioproducer.spark.auditing.murmur import partitions_of
from aioproducer.spark.auditing.picture import draw
from aioproducer.testing import EmbeddedKafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT, SOURCES, PARTITIONS = 3_000, 3, 4


async def test_murmur2_is_kafkas() -> None:
    """The hash equals the producer's own, for keys of every length."""
    keys = [bytes((at * 7 + byte) % 256 for byte in range(at % 41)) for at in range(500)]
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("t", 7)
        async with Producer(kafka.bootstrap_servers) as producer:
            result = await (await producer.send_batch("t", keys, keys=keys))
    assert partitions_of(pa.array(keys, pa.binary()), 7).tolist() == list(result.partitions)
    assert partitions_of(pa.array(keys, pa.binary())[100:], 7).tolist() == list(result.partitions[100:])


@pytest.mark.parametrize(
    "strange",
    [
        b"",
        None,
        b"no marks",
        b"a:b:c:d",
        b"a:1",
        b"a:99999999999999999999:00000000:x",
        b"a:0x5:8cdc1683:x",
        b"a:\xff:8cdc1683:x",
    ],
)
def test_values_without_marks_are_told_apart(strange: bytes | None) -> None:
    """Values without marks do not keep the others from being read."""
    marks = marks_of(pa.array([b"s:5:8cdc1683:x", strange], pa.binary()))
    assert marks.sources.to_pylist() == ["s", ""]
    assert marks.sequences.tolist() == [5, -1]
    assert marks.intact.tolist() == [True, False]


@pytest.mark.parametrize("check", [b"8cdc1682", b"8CDC1683", b"8cdc168", b"0x8cdc16", b"8cdc1683 "])
def test_a_checksum_is_compared_byte_by_byte(check: bytes) -> None:
    """The checksum is compared as bytes, even if it reads as another type."""
    marks = marks_of(pa.array([b"s:5:8cdc1683:x", b"s:6:" + check + b":x"], pa.binary()))
    assert marks.sequences.tolist() == [5, 6]
    assert marks.intact.tolist() == [True, False]


def sound(spark: SparkSession) -> list[tuple[bytes, bytes]]:
    """Keys and values of all records, in the order of their sends."""
    rows = spark.range(COUNT).selectExpr(
        f"concat('key ', id % {SOURCES}) as key",
        f"concat('source ', id % {SOURCES}) as source",
        f"id div {SOURCES} as sequence",
        "repeat('é', int(id % 50)) as rest",
    )
    made = (
        rows.select("key", marked("source", "sequence", "rest").alias("value"))
        .orderBy("sequence", "key")
        .collect()
    )
    return [(row.key.encode(), row.value.encode()) for row in made]


async def audited(
    spark: SparkSession, records: list[tuple[bytes, bytes]], kafka: str, topic: str, **misplaced: int
) -> Any:
    """The audit's verdict on a topic with these records."""
    async with Producer(kafka) as producer:
        for key, value in records:
            await producer.send(topic, value, key=key)
        for name, partition in misplaced.items():
            await producer.send(topic, b"stranger", key=name.encode(), partition=partition)
    expected = {f"source {number}": COUNT // SOURCES for number in range(SOURCES)}
    return audit(spark, kafka, [topic], expected=expected, split=400)


kafka = pytest.mark.kafka


@kafka
async def test_what_is_sound_is_clean(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> None:
    """The verdict is clean, as a table, as JSON and as a picture."""
    verdict = await audited(spark, sound(spark), options["kafka.bootstrap.servers"], options["topic"])
    assert verdict.problems == ()
    assert (verdict.records, verdict.sources, verdict.agree) == (COUNT, SOURCES, True)
    assert json.loads(verdict.as_json())["is_clean"] is True
    assert "clean" in verdict.as_table()
    draw(tmp_path / "a.png", verdict, verdict.pieces)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@kafka
@pytest.mark.parametrize(
    "what", ["removed", "removed at the end", "doubled", "doubled far away", "swapped", "altered", "replaced"]
)
async def test_what_is_wrong_is_found_and_named(
    spark: SparkSession, options: dict[str, str], what: str
) -> None:
    """Both methods see the damage, except for the order, which only one checks."""
    records = sound(spark)
    at = next(place for place, (_, value) in enumerate(records) if value.startswith(b"source 1:500:"))
    key, value = records[at]
    if what == "removed":
        del records[at]
    elif what == "removed at the end":
        at = max(place for place, (_, value) in enumerate(records) if value.startswith(b"source 1:"))
        del records[at]
    elif what == "doubled":
        records.insert(at, records[at])
    elif what == "doubled far away":
        records.append(records[at])
    elif what == "swapped":
        other = next(place for place, (_, value) in enumerate(records) if value.startswith(b"source 1:501:"))
        records[at], records[other] = records[other], records[at]
    elif what == "altered":
        records[at] = key, value[:-2] + "è".encode()
    elif what == "replaced":
        records[at] = records[at - SOURCES]
    verdict = await audited(spark, records, options["kafka.bootstrap.servers"], options["topic"])
    problems = "\n".join(verdict.problems)
    assert not verdict.is_clean
    assert verdict.agree
    expected = {
        "removed": ((1, 0, 0, 0), "1 of 1,000 lost: sequences 500"),
        "removed at the end": ((1, 0, 0, 0), "1 of 1,000 lost: sequences 999"),
        "doubled": ((0, 1, 1, 0), "1 too many: sequences 500 (2 times)"),
        "doubled far away": ((0, 1, 1, 0), "1 too many: sequences 500 (2 times)"),
        "swapped": ((0, 0, 1, 0), "1 records out of order"),
        "altered": ((0, 0, 0, 1), "1 altered"),
        "replaced": ((1, 1, 1, 0), "1 of 1,000 lost: sequences 500"),
    }[what]
    assert (verdict.lost, verdict.doubled, verdict.out_of_order, verdict.altered) == expected[0]
    assert expected[1] in problems


@kafka
async def test_strangers_and_records_in_the_wrong_place(spark: SparkSession, options: dict[str, str]) -> None:
    """Records without marks are counted, and so is a key outside the partition of Kafka's own client."""
    right = int(partitions_of(pa.array([b"stray"], pa.binary()), PARTITIONS)[0])
    servers = options["kafka.bootstrap.servers"]
    verdict = await audited(spark, sound(spark), servers, options["topic"], stray=(right + 1) % PARTITIONS)
    assert (verdict.unmarked, verdict.misplaced, verdict.lost, verdict.doubled) == (1, 1, 0, 0)


@kafka
async def test_what_was_aborted_is_there_for_some(spark: SparkSession, options: dict[str, str]) -> None:
    """Read as committed the topic is clean; read as uncommitted it has doubled records."""
    records = sound(spark)
    async with Producer(options["kafka.bootstrap.servers"], transactional_id=options["topic"]) as producer:
        for ends_well in (False, True):
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send_all([Record(options["topic"], value, key=key) for key, value in records])
            await (producer.commit_transaction() if ends_well else producer.abort_transaction())
    servers, topics = options["kafka.bootstrap.servers"], [options["topic"]]
    assert audit(spark, servers, topics, split=400).is_clean
    assert audit(spark, servers, topics, isolation="read_uncommitted", split=400).doubled == COUNT

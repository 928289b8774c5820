"""Batches into a real Kafka: every row at least once, or all rows of a job once or none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException

from aioproducer import list_transactions
from aioproducer.spark import register
from tests.spark.exactly_once.faulty import LostBehindSink
from tests.spark.rows import committed, failing, numbered, numbers, once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.conftest import MakeTopic

pytestmark = [pytest.mark.kafka]

EXACTLY = {"delivery": "exactly-once"}
COUNT = 20_000


def save(df: DataFrame, options: dict[str, str], name: str = "aioproducer") -> None:
    """Write the batch."""
    df.write.format(name).options(**options).mode("append").save()


def test_spark_finds_it_by_its_name(spark: SparkSession, options: dict[str, str]) -> None:
    """Without registering, where the library is installed; every row is there, keys in order and in Java's places."""
    save(numbered(spark, COUNT), options)
    records = committed(options)
    assert numbers(records) == once(COUNT)
    assert len({record.partition for record in records if record.key == b"7"}) == 1


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_all_parts_of_a_record(
    spark: SparkSession, options: dict[str, str], make_topic: MakeTopic, delivery: str
) -> None:
    """Key, value, headers, partition and timestamp; topics by column; null keys and values."""
    one, two = make_topic(), make_topic()
    df = spark.sql(
        f"""select * from values
        (binary('a'), binary('1'), '{one}', array(struct('h' as key, binary('x') as value)), 2, timestamp_millis(1700000000123)),
        (null, null, '{two}', null, 1, timestamp_millis(5)),
        (binary('c'), binary(''), '{one}', array(), 3, timestamp_millis(0))
        as t(key, value, topic, headers, partition, timestamp)"""
    )
    given = {**options, "delivery": delivery, "marker.topic": one}
    del given["topic"]
    save(df, given)
    written = [
        (each.partition, each.key, each.value, each.headers, each.timestamp)
        for each in committed(options, one)
    ]
    assert written == [(2, b"a", b"1", (("h", b"x"),), 1_700_000_000_123), (3, b"c", b"", (), 0)]
    assert [(each.partition, each.key, each.value) for each in committed(options, two)] == [(1, None, None)]


@pytest.mark.parametrize("dies", [False, True])
def test_a_task_that_is_repeated_is_there_once(
    spark: SparkSession, options: dict[str, str], dies: bool
) -> None:
    """The task's first two attempts had handed out all rows: with exactly-once those are not visible."""
    save(failing(numbered(spark, COUNT), attempts=2, dies=dies), options | EXACTLY)
    assert numbers(committed(options)) == once(COUNT)


def test_at_least_once_shows_what_an_attempt_left(spark: SparkSession, options: dict[str, str]) -> None:
    """The control: the same fault as in the next test doubles rows, and loses none."""
    spark.dataSource.register(LostBehindSink)
    save(numbered(spark, COUNT), options, "lost-behind")
    assert numbers(committed(options)) == once(COUNT) + once(COUNT)


def test_nothing_of_a_job_that_fails_is_visible(spark: SparkSession, options: dict[str, str]) -> None:
    """Later records are not hidden by an open transaction of the job."""
    with pytest.raises(PySparkException, match="a failure of the test"):
        save(failing(numbered(spark, COUNT), attempts=9), options | EXACTLY)
    assert committed(options) == []
    save(numbered(spark, 100), options | EXACTLY)
    assert numbers(committed(options)) == once(100)


def test_a_write_with_an_id_is_done_once(spark: SparkSession, options: dict[str, str], topic: str) -> None:
    """A second run of the job adds nothing; a run with other rows is refused, and adds nothing either."""
    given = options | EXACTLY | {"write.id": f"nightly {topic}"}
    for _ in range(2):
        save(numbered(spark, COUNT), given)
    with pytest.raises(PySparkException, match="repeated with 5001:"):
        save(numbered(spark, COUNT + 1), given)
    assert numbers(committed(options)) == once(COUNT)


def test_tasks_that_are_lost_behind_their_work(spark: SparkSession, options: dict[str, str]) -> None:
    """The first attempts have flushed all rows, and left a transaction open: the next attempts end it."""
    spark.dataSource.register(LostBehindSink)
    save(numbered(spark, COUNT), options | EXACTLY, "lost-behind")
    assert numbers(committed(options)) == once(COUNT)


async def test_nothing_stays_open_of_a_write_with_an_id(
    spark: SparkSession, options: dict[str, str], topic: str
) -> None:
    """A run with more tasks has failed: its open transactions are ended before the next run writes."""
    given = options | EXACTLY | {"write.id": topic}
    with pytest.raises(PySparkException):
        save(failing(numbered(spark, COUNT, tasks=6), attempts=9), given)
    save(numbered(spark, COUNT, tasks=2), given)
    assert numbers(committed(options)) == once(COUNT)
    prefix = f"aioproducer-spark-{topic}-"
    listed = await list_transactions(prefix, options["kafka.bootstrap.servers"])
    partitions = {
        name.split("-")[0] for each in listed if "." in (name := each.transactional_id.removeprefix(prefix))
    }
    assert partitions >= {"0", "1"}
    assert "Ongoing" not in {each.state for each in listed}


def test_register_is_for_where_it_is_not_installed(spark: SparkSession, options: dict[str, str]) -> None:
    """`register()` may be called anywhere, and more than once."""
    register(spark)
    register(spark)
    save(numbered(spark, 10), options)
    assert numbers(committed(options)) == once(10)


IMPATIENT = {"kafka.max.block.ms": "500"}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"topicc": "x"}, "did you mean 'topic'"),
    ({"kafka.acks": "1"}, "acks"),
    ({"kafka.lingerms": "5"}, "linger"),
    ({"kafka.transactional.id": "mine"}, "the sink sets"),
    ({"delivery": "perhaps"}, "at-least-once or exactly-once"),
    ({"write.id": "x"}, "set delivery=exactly-once"),
    ({"topic": "there is none"}, "topic"),
    ({"topic": "missing", **IMPATIENT}, "create it first"),
    ({"on.error": "missing", **IMPATIENT}, "create it first"),
    ({"includeHeaders": "maybe"}, "includeHeaders"),
    ({"kafka.bootstrap.servers": "127.0.0.1:1", **IMPATIENT}, "127.0.0.1:1"),
]


@pytest.mark.parametrize(
    ("wrong", "words"), WRONG, ids=[next(iter(wrong)) + str(at) for at, (wrong, _) in enumerate(WRONG)]
)
def test_what_is_wrong_is_told_before_any_task(
    spark: SparkSession, options: dict[str, str], wrong: dict[str, str], words: str
) -> None:
    """The driver raises the error, with an advice."""
    with pytest.raises(AnalysisException, match=words):
        save(numbered(spark, 10), options | wrong)


def test_wrong_columns_are_told_before_any_task(spark: SparkSession, options: dict[str, str]) -> None:
    """The error has all wrong columns."""
    df = spark.range(3).selectExpr("id as key", "'x' as vaule", "1L as partition")
    with pytest.raises(AnalysisException, match=r"(?s)'key' must be string or binary, not bigint.*'vaule'"):
        save(df, options)


def test_a_topic_cannot_be_overwritten(spark: SparkSession, options: dict[str, str]) -> None:
    """Rows can only be appended."""
    with pytest.raises(AnalysisException, match="append"):
        numbered(spark, 10).write.format("aioproducer").options(**options).mode("overwrite").save()


def test_dead_letters(spark: SparkSession, options: dict[str, str], make_topic: MakeTopic) -> None:
    """A row that can never be written is set aside with the reason; without a topic for it, it fails the write."""
    dead = make_topic(1)
    df = spark.sql("select 'k' as key, 'fine' as value union all select 'big', repeat('x', 2000000)")
    with pytest.raises(PySparkException, match="RecordTooLargeError"):
        save(df, options)
    save(df, options | {"on.error": dead})
    (letter,) = committed(options, dead)
    headers = dict(letter.headers)
    assert letter.key == b"big"
    assert headers["aioproducer.error.class"] == b"RecordTooLargeError"
    assert headers["aioproducer.topic"] == options["topic"].encode()
    assert headers["aioproducer.value.bytes"] == b"2000000"
    assert letter.value == b"x" * 65_536

"""The sink on each line of Kafka since 0.11: at least once on all, exactly once from the line on that its requests need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from tests.kafka.versions.brokers import VERSIONS, broker_of
from tests.spark.exactly_once.epochs import FILES, ROWS, folder_of_epochs
from tests.spark.rows import committed, failing, forget_last_commit, numbered, numbers, once, write_stream
from tools.kafka_jars import release

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tools.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka]

EXACTLY: Final = {"delivery": "exactly-once"}
NAMED: Final = EXACTLY | {"write.id": "nightly"}
# Before Kafka 2.4 the driver cannot create the ledger, and refuses for that reason.
WITHOUT_LEDGER: Final = {"ledger.topic": "none"}
COUNT: Final = 2_000
# The first release that tells a reader of offsets about open transactions, and the first that lists transactions.
STREAMS: Final = (2, 5)
BATCHES: Final = (3, 0)


@pytest.fixture(scope="module", params=VERSIONS)
def broker(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A broker of this version."""
    with broker_of(request.param) as cluster:
        yield cluster


@pytest.fixture
def options(broker: KafkaCluster, request: pytest.FixtureRequest) -> dict[str, str]:
    """The options of a write to a topic of four partitions."""
    topic = broker.create_topic(request.function.__name__.replace("_", "-"), 4)
    return {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic}


def write(df: DataFrame, options: dict[str, str]) -> None:
    df.write.format("aioproducer").options(**options).mode("append").save()


def test_a_batch_at_least_once(spark: SparkSession, options: dict[str, str]) -> None:
    """Each row is there."""
    write(numbered(spark, COUNT), options)
    assert numbers(committed(options)) == once(COUNT)


def test_a_batch_exactly_once(spark: SparkSession, broker: KafkaCluster, options: dict[str, str]) -> None:
    """One attempt of a task fails behind its rows, and the job is run again; or the driver refuses, and nothing is written."""
    rows = failing(numbered(spark, COUNT), attempts=1)
    if release(broker.version) < BATCHES:
        with pytest.raises(PySparkException, match="ListTransactions"):
            write(rows, options | NAMED | WITHOUT_LEDGER)
        assert committed(options) == []
        return
    for _ in range(2):
        write(rows, options | NAMED)
        assert numbers(committed(options)) == once(COUNT)


def test_a_stream_exactly_once(
    spark: SparkSession, broker: KafkaCluster, options: dict[str, str], tmp_path: Path
) -> None:
    """The last epoch is repeated in another run; or the first task refuses, and nothing is written."""
    source = folder_of_epochs(tmp_path / "source")
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(source))
    df = lines.repartition(2, "value").selectExpr("value as key", "value")
    if release(broker.version) < STREAMS:
        with pytest.raises(StreamingQueryException, match="OffsetFetch"):
            write_stream(df, options | EXACTLY | WITHOUT_LEDGER, tmp_path / "checkpoint")
        assert committed(options) == []
        return
    write_stream(df, options | EXACTLY, tmp_path / "checkpoint")
    forget_last_commit(tmp_path / "checkpoint")
    write_stream(df, options | EXACTLY, tmp_path / "checkpoint")
    assert numbers(committed(options)) == once(FILES * ROWS)

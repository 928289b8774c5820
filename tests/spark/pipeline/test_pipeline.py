"""examples/pipeline in a session of the tests; the demonstration with its cluster and its kills runs in `make proof`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from anyio.from_thread import BlockingPortal

from aioproducer.spark import audit
from aioproducer.testing import EmbeddedKafka
from examples.pipeline.demo import INCOMING, job_in, kafka_with_topics, send_orders
from examples.pipeline.orders import Orders, line, wrong_sums
from examples.pipeline.queries import Job, run
from examples.pipeline.steps import DEAD, SUMS, enriched, parsed, table_of_shops
from examples.pipeline.topic import TopicSource
from tests.effort import PROOF
from tests.repo.source import ROOT
from tests.spark.conftest import no_producer_is_kept
from tests.spark.late_workers import with_workers
from tests.spark.rows import forget_last_commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Java, and in `make proof` a cluster.
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800 if PROOF else 600)]

ORDERS = Orders(700, shops=2, files=2)


@attrs.frozen
class Written:
    """The topics after the pipeline has written them."""

    portal: BlockingPortal
    kafka: EmbeddedKafka
    job: Job

    def values(self, topic: str) -> list[bytes]:
        """The values of the committed records."""
        return [record.value or b"" for record in self.portal.call(self.kafka.records, topic)]

    def headers(self, topic: str) -> list[dict[str, bytes | None]]:
        """The headers of the committed records."""
        return [dict(record.headers) for record in self.portal.call(self.kafka.records, topic)]


def stop_queries(spark: SparkSession) -> None:
    """One of the two queries has failed: end the other one, before both are started again."""
    for query in spark.streams.active:
        query.stop()


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """Both queries ran to their end, and then again as if the driver had died before it recorded their last epochs."""
    folder = tmp_path_factory.mktemp("pipeline")
    with kafka_with_topics([INCOMING, *ORDERS.topics]) as (portal, kafka):
        job = job_in(folder, ORDERS, kafka.bootstrap_servers)
        ORDERS.write_files(Path(job.files))
        asyncio.run(send_orders(job.servers, ORDERS))
        with_workers(lambda: run(spark, job), before_another=lambda: stop_queries(spark))
        for query in ("orders", "sums"):
            forget_last_commit(job.state_of(query))
        with_workers(lambda: run(spark, job), before_another=lambda: stop_queries(spark))
        yield Written(portal, kafka, job)
        no_producer_is_kept()


def test_every_order_and_every_sum_is_there_once(spark: SparkSession, written: Written) -> None:
    """The audit of all topics is clean, each has its records, and each sum is that of its orders."""
    verdict = audit(spark, written.job.servers, ORDERS.topics, expected=ORDERS.expected)
    assert verdict.problems == ()
    assert verdict.records == sum(ORDERS.by_topic.values())
    assert {topic: len(written.values(topic)) for topic in ORDERS.topics} == dict(ORDERS.by_topic)
    assert ORDERS.windows > 0
    assert wrong_sums(ORDERS, iter(written.values(SUMS))) == []


def test_dead_letters_have_their_reason(written: Written) -> None:
    """Those of the check have the problem; the sink's own, of a region without a topic, have its headers."""
    found = Counter(
        (headers.get("problem") or headers["aioproducer.error.class"] or b"").decode()
        for headers in written.headers(DEAD)
    )
    assert found == {
        "not an order": 2 * 175,
        "a quantity below 1": 2 * 175,
        "an unknown product": 2 * 175,
        "an unknown shop": 2 * 175,
        "RecordError": 2 * 700,
    }


def test_the_steps_work_on_a_batch(spark: SparkSession) -> None:
    """An order that fits has a region and a price; of the others, each has its own problem."""
    lines = [(line("till 0", 3),), (line("odd till", 0),), ('{"shop": "till 0", "number": 1}',), ("",)]
    shops = table_of_shops(spark, {"till 0": "north"})
    found = enriched(parsed(spark.createDataFrame(lines, "value string")), shops).collect()
    facts = Counter((row.problem, row.region, row.pence) for row in found)
    assert facts[None, "north", 4 * 420] == 1
    assert Counter(problem for problem, _, _ in facts.elements()) == {None: 1, "not an order": 3}


def test_a_topic_is_read_between_two_cuts(spark: SparkSession, written: Written) -> None:
    """A batch up to the cut and a batch behind it have each record once: a backfill, and what goes on from it."""
    spark.dataSource.register(TopicSource)
    reader = spark.read.format("topic").option("kafka.bootstrap.servers", written.job.servers)
    reader = reader.option("subscribe", INCOMING)
    cut = f'{{"{INCOMING}": {{"0": 10, "1": 0, "2": 200}}}}'
    everything = reader.load().collect()
    before = reader.option("endingOffsets", cut).load().collect()
    behind = spark.read.format("topic").option("kafka.bootstrap.servers", written.job.servers)
    after = behind.option("subscribe", INCOMING).option("startingOffsets", cut).load().collect()
    assert len(everything) == len(written.values(INCOMING))
    assert (len(before), Counter(before + after)) == (210, Counter(everything))


if PROOF:

    def test_the_demonstration(tmp_path: Path) -> None:
        """`make demo-pipeline`: a cluster of two workers, an executor, a broker and the driver killed, and a clean audit."""
        command = [
            sys.executable,
            "-W",
            "error",
            "-m",
            "examples.pipeline.demo",
            str(tmp_path / "report.png"),
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert all(
            what in done.stdout for what in ("killed an executor", "stopped broker 1", "killed the driver")
        )
        assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")

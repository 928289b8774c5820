"""One Spark for all tests of the sink, on this machine's processors, and topics of a real Kafka."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from aioproducer.spark.shipping.worker import this_worker
from aioproducer.testing import EmbeddedKafka
from tests.spark.exactly_once.attempts import WAYS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tools.kafka_cluster import KafkaCluster

ROOT: Final = Path(__file__).parents[2]
ATTEMPTS: Final = 4
_numbers = itertools.count()

MakeTopic = Callable[..., str]


def no_producer_is_kept() -> None:
    """The worker of this process drops its producers, which would look for their cluster during later tests."""
    worker = this_worker()
    for config in list(worker._producers):
        worker.run(worker.forget(config))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with two threads, in which a task may fail three times."""
    from pyspark.sql import SparkSession

    # The workers import the same modules as the tests.
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        session = (
            SparkSession.builder.master(f"local[2,{ATTEMPTS}]")
            .appName("aioproducer")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", folder)
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
        yield session
        session.stop()


@pytest.fixture(autouse=True)
def no_query_goes_on(request: pytest.FixtureRequest) -> Iterator[None]:
    """A failed test leaves no query running, which would keep the session from ending."""
    yield
    if "spark" in request.fixturenames:
        for query in request.getfixturevalue("spark").streams.active:
            query.stop()


@pytest.fixture
async def kafka() -> AsyncIterator[EmbeddedKafka]:
    """An embedded cluster of two brokers with the topic `orders`, for tests without Spark."""
    async with EmbeddedKafka(2) as kafka:
        kafka.create_topic("orders", 1)
        kafka.create_topic("aioproducer-spark-marks", 16, cleanup_policy="compact")
        yield kafka
        await asyncio.to_thread(no_producer_is_kept)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """A way in which a task writes."""
    found: str = request.param
    return found


@pytest.fixture
def make_topic(real_kafka: KafkaCluster) -> MakeTopic:
    """Creates topics of four partitions, or of another number."""

    def make(partitions: int = 4) -> str:
        return real_kafka.create_topic(f"spark-{next(_numbers)}", partitions)

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """A topic of four partitions."""
    return make_topic()


@pytest.fixture
def options(real_kafka: KafkaCluster, topic: str) -> dict[str, str]:
    """The options of every write."""
    return {"kafka.bootstrap.servers": real_kafka.bootstrap_servers, "topic": topic}

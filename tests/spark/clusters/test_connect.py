"""Spark Connect: the ways of writing that work through it, and the errors of those that do not."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from tests.repo.source import ROOT
from tests.spark.clusters.daemon import Daemon
from tests.spark.clusters.page import ROWS as ROWS_OF_THE_PAGE
from tests.spark.clusters.page import write_program
from tests.spark.clusters.standalone import SPARK_HOME, START_LIMIT, clean_environment, run_to_the_end
from tests.spark.exactly_once.epochs import ROWS, folder_of_epochs
from tests.spark.rows import committed, numbers, once
from tools.quick_spark import quick_spark

if TYPE_CHECKING:
    from tools.kafka_cluster import KafkaCluster

# One program runs all ways, and the first test waits for it.
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).parent / "programs" / "connected.py"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
COUNT = 5_000
FILES = 2
ALL = once(FILES * ROWS)
AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"
FOUND = {
    ("batch", AT_LEAST_ONCE): once(COUNT),
    ("function", EXACTLY_ONCE): once(COUNT),
    ("stream", AT_LEAST_ONCE): ALL,
    ("stream", EXACTLY_ONCE): ALL,
    ("updates", EXACTLY_ONCE): ALL,
}


@attrs.frozen
class Run:
    """The settings of the program, and its results."""

    servers: str
    topics: dict[tuple[str, str], str]
    page_topic: str
    results: dict[str, Any]

    def found(self, topic: str) -> Any:
        """The numbers in a topic."""
        return numbers(committed({"kafka.bootstrap.servers": self.servers, "topic": topic}))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of Spark Connect with two threads; its address."""
    folder = tmp_path_factory.mktemp("server")
    confs = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]", "--class", SERVER]
    command += ["--driver-java-options", quick_spark()]
    command += [word for name, value in confs.items() for word in ("--conf", f"{name}={value}")]
    # Installed in place, the format would not be found by its name.
    python = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    environment = clean_environment(folder) | python | {"SPARK_DAEMON_MEMORY": "1g"}
    daemon = Daemon([*command, "spark-internal"], folder, environment, folder / "server.log")
    try:
        daemon.start()
        port = daemon.wait_for(r"Spark Connect server started at: .*:(\d+)", START_LIMIT)[1]
        yield f"sc://127.0.0.1:{port}"
    finally:
        daemon.end()


@pytest.fixture(scope="module")
def run(real_kafka: KafkaCluster, server: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One client runs all ways, in a process of its own: a process has one kind of session."""
    folder = tmp_path_factory.mktemp("connect")
    folder_of_epochs(folder / "source", FILES)
    ways = [*FOUND, ("nameless", EXACTLY_ONCE), ("audited", EXACTLY_ONCE)]
    topics = {way: real_kafka.create_topic(f"connect-{'-'.join(way)}", 4) for way in ways}
    page_topic = real_kafka.create_topic("connect-page", 4)
    servers = real_kafka.bootstrap_servers
    given = {"kafka.bootstrap.servers": servers, "topic": page_topic}
    page = write_program(1, folder / "page.py", given, server)
    by_topic = json.dumps({topic: way for way, topic in topics.items()})
    submitted = run_to_the_end(
        [sys.executable, str(PROGRAM), servers, server, str(folder), str(COUNT), by_topic, str(page)],
        folder,
        clean_environment(folder) | {"PYTHONPATH": str(ROOT)},
    )
    results = json.loads(submitted.require_success().splitlines()[-1])
    return Run(servers, topics, page_topic, results)


@pytest.mark.parametrize("way", FOUND, ids=" ".join)
def test_a_way_of_writing(run: Run, way: tuple[str, str]) -> None:
    """All rows are there once; exactly-once streams have repeated their last epoch."""
    assert run.found(run.topics[way]) == FOUND[way]


def test_the_program_of_the_page(run: Run) -> None:
    """The program of docs/spark-clusters.md runs unchanged: a batch, exactly once."""
    assert run.found(run.page_topic) == once(ROWS_OF_THE_PAGE)


def test_updates_exactly_once_need_a_name(run: Run) -> None:
    """The error comes before the query starts."""
    assert "'sink.id'" in run.results["nameless"]
    assert "Spark Connect does not pass the id of the query" in run.results["nameless"]


def test_the_audit(run: Run) -> None:
    """The audit runs where the session is."""
    verdict = run.results["audited"]
    assert (verdict["is_clean"], verdict["records"], verdict["sources"]) == (True, COUNT, 10)

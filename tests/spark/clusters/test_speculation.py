"""Spark's speculation on a cluster of two hosts: two attempts of a task write at the same time, in each way of writing."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import pytest

from tests.repo.source import ROOT
from tests.spark.clusters.standalone import StandaloneCluster
from tests.spark.exactly_once.epochs import ROWS, folder_of_epochs
from tests.spark.rows import committed, numbers, once

if TYPE_CHECKING:
    from tools.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

PROGRAM: Final = Path(__file__).parent / "programs" / "speculative.py"
# A second attempt begins as soon as one of two tasks has ended.
SPECULATION: Final = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
    # A task that fails ends the program: no attempt may fail because of the other.
    "spark.task.maxFailures": "1",
}
EXACTLY: Final = {"delivery": "exactly-once"}
WAYS: Final = {
    "batch": ("batch", EXACTLY),
    "named": ("batch", EXACTLY | {"write.id": "speculative"}),
    "stream": ("stream", EXACTLY),
    "epochs": ("epochs", EXACTLY),
    "at-least-once": ("stream", {}),
}


@attrs.frozen
class Run:
    """The result of the program."""

    servers: str
    topics: dict[str, str]
    # By topic, the attempts of the slow task that had all of their rows.
    attempts: dict[str, list[str]]

    def found(self, way: str) -> Counter[int]:
        """The count of each number in the topic of this way."""
        return numbers(committed({"kafka.bootstrap.servers": self.servers, "topic": self.topics[way]}))


@pytest.fixture(scope="module")
def run(
    real_kafka: KafkaCluster, cluster: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """One program writes in each way."""
    folder = tmp_path_factory.mktemp("speculation")
    folder_of_epochs(folder / "source", 1)
    topics = {way: real_kafka.create_topic(f"speculation-{way}", 2) for way in WAYS}
    by_topic = {topics[way]: WAYS[way] for way in WAYS}
    submitted = cluster.submit(
        PROGRAM,
        real_kafka.bootstrap_servers,
        str(folder),
        str(ROWS),
        json.dumps(by_topic),
        folder=folder,
        options=[word for name, value in SPECULATION.items() for word in ("--conf", f"{name}={value}")],
        PYTHONPATH=str(ROOT),
        PYSPARK_PYTHON=sys.executable,
    )
    attempts = json.loads(submitted.require_success().splitlines()[-1])
    return Run(real_kafka.bootstrap_servers, topics, attempts)


@pytest.mark.parametrize("way", WAYS)
def test_two_attempts_write_at_the_same_time(run: Run, way: str) -> None:
    """Exactly once, each row is there once; at least once, none is lost, and some may be there twice."""
    assert "1" in run.attempts[run.topics[way]], "Spark has started no second attempt"
    found = run.found(way)
    if EXACTLY.items() <= WAYS[way][1].items():
        assert found == once(ROWS)
    else:
        assert set(found) == set(range(ROWS))
        assert set(found.values()) <= {1, 2}

"""A plan of a run under faults: its cluster, its length, and what happens in it."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import TYPE_CHECKING

import attrs
import pytest

from tests.soak.secured_nodes import CLIENT_FILE, PASSWORD_FILE, TRUSTED_FILE, USER, SecuredNodes
from tests.spark.faults.order import Order
from tests.spark.faults.runs import FaultyRun, incidents
from tests.spark.faults.sinks import EXACTLY_ONCE
from tools.kafka_cluster import KafkaCluster

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.faults.conftest import Executors

__all__ = ["Plan", "require_each_row_once"]

TASKS, PARTITIONS = 3, 6
_numbers = itertools.count()


@attrs.frozen
class Plan:
    """The cluster of the streams or jobs, their length, and the incidents of whole processes."""

    name: str
    # The fixture of the cluster.
    nodes: str
    epochs: int
    wanted: Counter[str]
    rows: int = 3_000
    # The fixture of the executors.
    executors: str = "one_host"
    # One attempt in each of so many epochs waits for another one of its task.
    waits: int = 0
    # Each writes the same rows.
    deliveries: tuple[str, ...] = (EXACTLY_ONCE,)

    def begin(
        self, program: str, kafka: KafkaCluster, executors: Executors, seed: int, folder: Path
    ) -> FaultyRun:
        """The run of this plan by a program, with topics of its own."""
        number = next(_numbers)
        topics = {
            delivery: kafka.create_topic(f"{program.rpartition('.')[2]}-{number}-{delivery}", PARTITIONS)
            for delivery in self.deliveries
        }
        planned = incidents(seed, self.epochs, self.wanted)
        in_peace = sorted({*range(self.epochs)} - {each.epoch for each in planned})
        failing = max(self.epochs // 10, 1)
        order = Order(
            connection_to(kafka),
            str(folder),
            topics,
            executors.master,
            seed,
            self.epochs,
            self.rows,
            TASKS,
            likely=0.1,
            commits=tuple(random.Random(f"{seed} commits").sample(range(1, self.epochs), failing)),
            incidents=tuple(each.epoch for each in planned),
            waits=tuple(random.Random(f"{seed} waits").sample(in_peace, self.waits)),
            settings=executors.settings,
        )
        return FaultyRun(kafka, program, order, planned)


def connection_to(kafka: KafkaCluster) -> dict[str, str]:
    """The options of the sink that lead to a cluster, by the secured listener where there is one."""
    if not isinstance(kafka, SecuredNodes):
        return {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    folder = kafka.folder
    return {
        "kafka.bootstrap.servers": kafka.secured_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(folder / TRUSTED_FILE),
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": str(folder / CLIENT_FILE),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": USER,
        "kafka.sasl.password": f"${{dir:{folder}:{PASSWORD_FILE}}}",
        "secrets.folders": str(folder),
    }


def require_each_row_once(
    run: FaultyRun, plan: Plan, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    """Play the run to its end: each row is there once and in order, and its faults were such that this proves something."""
    run.play()
    exactly = run.verdict(spark, EXACTLY_ONCE)
    uncommitted = run.verdict(spark, EXACTLY_ONCE, "read_uncommitted")
    others = [run.verdict(spark, delivery) for delivery in plan.deliveries[1:]]
    _report(request, run.summary(exactly, uncommitted, others))
    assert exactly.problems == ()
    assert exactly.records == plan.epochs * plan.rows
    for at_least in others:
        assert at_least.lost == 0
        assert at_least.doubled > 0, "these faults prove nothing"
    assert uncommitted.doubled > 0, "no attempt has left anything"
    assert run.skips() > 0, "no task was repeated behind its commit"
    assert run.counts == plan.wanted
    assert run.waited() == set(run.order.waits)
    assert run.faults(EXACTLY_ONCE).total() >= plan.epochs
    assert run.secrets_shown() == []


def _report(request: pytest.FixtureRequest, text: str) -> None:
    """Print the results of a run, also where it has passed."""
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        print(f"\n{request.node.name}: {text}")

"""Streams on a real Kafka while tasks, workers, executors, drivers and brokers die: exactly once doubles no row.

Two queries write the same rows and suffer the same faults, drawn from a seed. A foreign client reads the topics back,
and two methods judge them. As many epochs as kinds of faults, and one more, in `make test`; more than a hundred,
on one node and on three, with `AIOPRODUCER_EFFORT=proof`.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import pytest

from tests.effort import PROOF, SEED_VARIABLE
from tests.seeds import seed_of
from tests.spark.faults.injected import Fault
from tests.spark.faults.processes import CLUSTER
from tests.spark.faults.sinks import AT_LEAST_ONCE, EXACTLY_ONCE
from tests.spark.faults.streaming import Order
from tests.spark.faults.streams import Streams, incidents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tools.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(7200 if PROOF else 1500)]

_SEED: Final = seed_of(__name__)
ROWS, TASKS, PARTITIONS = 3_000, 3, 6
_numbers = itertools.count()


@attrs.frozen
class Plan:
    """The cluster of the streams, their length, and the incidents of whole processes."""

    name: str
    # The fixture of the cluster.
    nodes: str
    epochs: int
    wanted: Counter[str]


# One that the driver cannot survive, and one that only fencing withstands.
FEW: Final = Counter({"drivers killed": 1, "zombies that came too late": 1})
MANY: Final = Counter(
    {
        "drivers killed": 6,
        "brokers killed": 3,
        "executors killed": 3,
        "zombies that came first": 2,
        "zombies that came too late": 2,
    }
)
SHORT: Final = (Plan("one-node", "one_node", len(Fault) + 1, FEW),)
LONG: Final = (
    Plan("one-node", "one_node", 110, MANY),
    Plan("three-nodes", "three_nodes", 110, MANY),
)


@pytest.mark.parametrize("plan", LONG if PROOF else SHORT, ids=lambda plan: plan.name)
def test_each_row_once_and_in_order(
    spark: SparkSession, plan: Plan, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """No row is lost, doubled or out of order under any fault; without transactions the same faults double rows."""
    print(f"replay these faults with {SEED_VARIABLE}={_SEED}")
    kafka: KafkaCluster = request.getfixturevalue(plan.nodes)
    number = next(_numbers)
    topics = {
        delivery: kafka.create_topic(f"stream-{number}-{delivery}", PARTITIONS)
        for delivery in (EXACTLY_ONCE, AT_LEAST_ONCE)
    }
    planned = incidents(_SEED, plan.epochs, plan.wanted)
    order = Order(
        kafka.bootstrap_servers,
        str(tmp_path),
        topics,
        CLUSTER,
        _SEED,
        plan.epochs,
        ROWS,
        TASKS,
        likely=0.1,
        commits=tuple(
            random.Random(f"{_SEED} commits").sample(range(1, plan.epochs), max(plan.epochs // 10, 1))
        ),
        incidents=tuple(each.epoch for each in planned),
    )
    with Streams(kafka, order, planned) as streams:
        streams.run()
        exactly = streams.verdict(spark, EXACTLY_ONCE)
        uncommitted = streams.verdict(spark, EXACTLY_ONCE, "read_uncommitted")
        at_least = streams.verdict(spark, AT_LEAST_ONCE)
        _report(request, streams.summary(exactly, uncommitted, at_least))
    assert exactly.problems == ()
    assert exactly.records == plan.epochs * ROWS
    assert at_least.lost == 0
    assert at_least.doubled > 0, "these faults prove nothing"
    assert uncommitted.doubled > 0, "no attempt has left anything"
    assert streams.skips() > 0, "no task was repeated behind its commit"
    assert streams.counts == plan.wanted
    assert streams.faults(EXACTLY_ONCE).total() >= plan.epochs


def _report(request: pytest.FixtureRequest, text: str) -> None:
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        print(f"\n{request.node.name}: {text}")

"""Streams on a real Kafka while tasks, workers, executors, drivers and brokers die: exactly once doubles no row.

Two queries write the same rows and suffer the same faults, drawn from a seed. A foreign client reads the topics back,
and two methods judge them. As many epochs as kinds of faults, and one more, in `make test`; with `AIOPRODUCER_EFFORT=proof`
more than a hundred on one node, three hundred on three, and three hundred with two attempts of a task side by side.
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
from tests.spark.faults.sinks import AT_LEAST_ONCE, EXACTLY_ONCE
from tests.spark.faults.streaming import Order
from tests.spark.faults.streams import Streams, incidents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.faults.conftest import Executors
    from tools.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(7200 if PROOF else 1500)]

_SEED: Final = seed_of(__name__)
TASKS, PARTITIONS = 3, 6
_numbers = itertools.count()


@attrs.frozen
class Plan:
    """The cluster of the streams, their length, and the incidents of whole processes."""

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
    # The streams that write the same rows.
    deliveries: tuple[str, ...] = (EXACTLY_ONCE, AT_LEAST_ONCE)


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
# An attempt that outlives its executor is no zombie where another one runs beside it anyway.
KILLS: Final = Counter({"drivers killed": 5, "brokers killed": 3, "executors killed": 4})
SHORT: Final = (Plan("one-node", "one_node", len(Fault) + 1, FEW),)
LONG: Final = (
    Plan("one-node", "one_node", 110, MANY),
    Plan("three-nodes", "three_nodes", 300, MANY, 3_336, deliveries=(EXACTLY_ONCE,)),
    Plan("speculation", "one_node", 300, KILLS, 3_336, "two_hosts", 60, (EXACTLY_ONCE,)),
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
        for delivery in plan.deliveries
    }
    planned = incidents(_SEED, plan.epochs, plan.wanted)
    in_peace = sorted({*range(plan.epochs)} - {each.epoch for each in planned})
    executors: Executors = request.getfixturevalue(plan.executors)
    order = Order(
        kafka.bootstrap_servers,
        str(tmp_path),
        topics,
        executors.master,
        _SEED,
        plan.epochs,
        plan.rows,
        TASKS,
        likely=0.1,
        commits=tuple(
            random.Random(f"{_SEED} commits").sample(range(1, plan.epochs), max(plan.epochs // 10, 1))
        ),
        incidents=tuple(each.epoch for each in planned),
        waits=tuple(random.Random(f"{_SEED} waits").sample(in_peace, plan.waits)),
        settings=executors.settings,
    )
    with Streams(kafka, order, planned) as streams:
        streams.run()
        exactly = streams.verdict(spark, EXACTLY_ONCE)
        uncommitted = streams.verdict(spark, EXACTLY_ONCE, "read_uncommitted")
        others = [streams.verdict(spark, delivery) for delivery in plan.deliveries[1:]]
        _report(request, streams.summary(exactly, uncommitted, others))
    assert exactly.problems == ()
    assert exactly.records == plan.epochs * plan.rows
    for at_least in others:
        assert at_least.lost == 0
        assert at_least.doubled > 0, "these faults prove nothing"
    assert uncommitted.doubled > 0, "no attempt has left anything"
    assert streams.skips() > 0, "no task was repeated behind its commit"
    assert streams.counts == plan.wanted
    assert streams.waited() == set(order.waits)
    assert streams.faults(EXACTLY_ONCE).total() >= plan.epochs


def _report(request: pytest.FixtureRequest, text: str) -> None:
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        print(f"\n{request.node.name}: {text}")

"""Streams on a real Kafka while tasks, workers, executors, drivers and brokers die: exactly once doubles no row.

Two queries write the same rows and suffer the same faults, drawn from a seed. A foreign client reads the topics back,
and two methods judge them. As many epochs as kinds of faults, and one more, in `make test`; with `AIOPRODUCER_EFFORT=proof`
more than a hundred on one node, three hundred on three, three hundred with two attempts of a task side by side, and three
hundred over TLS on three nodes whose passwords and certificates change.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.effort import PROOF, SEED_VARIABLE
from tests.seeds import seed_of
from tests.spark.faults.injected import Fault
from tests.spark.faults.plans import Plan, require_each_row_once
from tests.spark.faults.sinks import AT_LEAST_ONCE, EXACTLY_ONCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.faults.conftest import Executors
    from tools.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(7200 if PROOF else 1500)]

_SEED: Final = seed_of(__name__)
PROGRAM: Final = "tests.spark.faults.streaming"
BOTH: Final = (EXACTLY_ONCE, AT_LEAST_ONCE)
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
SHORT: Final = (Plan("one-node", "one_node", len(Fault) + 1, FEW, deliveries=BOTH),)
LONG: Final = (
    Plan("one-node", "one_node", 110, MANY, deliveries=BOTH),
    Plan("three-nodes", "three_nodes", 300, MANY, 3_336),
    Plan("speculation", "one_node", 300, KILLS, 3_336, "two_hosts", waits=60),
    Plan("secured", "secured_nodes", 300, KILLS + Counter({"secrets changed": 8}), 3_336),
)


@pytest.mark.parametrize("plan", LONG if PROOF else SHORT, ids=lambda plan: plan.name)
def test_each_row_once_and_in_order(
    spark: SparkSession, plan: Plan, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """No row is lost, doubled or out of order under any fault; without transactions the same faults double rows."""
    print(f"replay these faults with {SEED_VARIABLE}={_SEED}")
    executors: Executors = request.getfixturevalue(plan.executors)
    kafka: KafkaCluster = request.getfixturevalue(plan.nodes)
    with plan.begin(PROGRAM, kafka, executors, _SEED, tmp_path) as streams:
        require_each_row_once(streams, plan, spark, request)

"""Batches with a `write.id`, one after the other, on a real Kafka while tasks, executors, drivers and brokers die.

A driver that follows a killed one runs the job again, from which tasks may be committed. A foreign client reads the
topic back, and two methods judge it. Five jobs, and in `make proof` three hundred on one node, three hundred on three, and
three hundred over TLS while passwords and certificates change.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from aioproducer import list_transactions
from tests.effort import PROOF, SEED_VARIABLE
from tests.seeds import seed_of
from tests.spark.faults.plans import Plan, require_each_row_once
from tests.spark.faults.runs import HALF_WAY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.faults.conftest import Executors
    from tools.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(7200 if PROOF else 1500)]

_SEED: Final = seed_of(__name__)
PROGRAM: Final = "tests.spark.faults.jobs"
# Each job with a driver killed half-way is run again from the committed tasks.
FEW: Final = Counter({HALF_WAY: 1})
MANY: Final = Counter(
    {
        HALF_WAY: 4,
        "drivers killed": 5,
        "brokers killed": 3,
        "executors killed": 3,
        "zombies beside their successors": 3,
    }
)
SHORT: Final = (Plan("one-node", "one_node", 5, FEW),)
LONG: Final = (
    Plan("one-node", "one_node", 300, MANY, 3_336),
    Plan("three-nodes", "three_nodes", 300, MANY, 3_336),
    Plan("secured", "secured_nodes", 300, MANY + Counter({"secrets changed": 8}), 3_336),
)


@pytest.mark.parametrize("plan", LONG if PROOF else SHORT, ids=lambda plan: plan.name)
async def test_each_row_once_and_in_order(
    spark: SparkSession, plan: Plan, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """No row is lost, doubled or out of order under any fault, and no transaction is left open."""
    print(f"replay these faults with {SEED_VARIABLE}={_SEED}")
    executors: Executors = request.getfixturevalue(plan.executors)
    kafka: KafkaCluster = request.getfixturevalue(plan.nodes)
    with plan.begin(PROGRAM, kafka, executors, _SEED, tmp_path) as jobs:
        require_each_row_once(jobs, plan, spark, request)
    listed = await list_transactions("aioproducer-spark-", kafka.bootstrap_servers)
    assert "Ongoing" not in {one.state for one in listed}

"""Dynamic allocation on a cluster of two hosts: an epoch begins without any executor, and gets its second one on its way."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.repo.source import ROOT

if TYPE_CHECKING:
    from tests.spark.clusters.standalone import StandaloneCluster
    from tools.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

PROGRAM: Final = Path(__file__).parent / "programs" / "elastic.py"
EPOCHS: Final = 2
ALLOCATION: Final = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    # Each file is read by a task of its own.
    "spark.sql.files.minPartitionNum": "4",
}


def test_executors_come_and_go(real_kafka: KafkaCluster, cluster: StandaloneCluster, tmp_path: Path) -> None:
    """Each epoch has executors of its own, and the audit finds each row of the stream and of the batch once."""
    topics = {kind: real_kafka.create_topic(f"elastic-{kind}", 4) for kind in ("stream", "batch")}
    submitted = cluster.submit(
        PROGRAM,
        real_kafka.bootstrap_servers,
        str(tmp_path),
        topics["stream"],
        topics["batch"],
        str(EPOCHS),
        folder=tmp_path,
        options=[word for name, value in ALLOCATION.items() for word in ("--conf", f"{name}={value}")],
        PYTHONPATH=str(ROOT),
        PYSPARK_PYTHON=sys.executable,
    )
    found = json.loads(submitted.require_success().splitlines()[-1])
    assert sorted(found["executors"]) == [*map(str, range(EPOCHS)), "batch"]
    of_all = [each for executors in found["executors"].values() for each in executors]
    assert len(set(of_all)) == len(of_all) == 2 * (EPOCHS + 1)
    assert found["are_clean"]

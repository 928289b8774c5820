"""Real clusters that several files of tests here share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tools.kafka_cluster import KafkaCluster
from tools.kafka_node import QUICK_START

# Otherwise the cluster itself takes nine seconds to miss a dead node.
_SETTINGS: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
}


@pytest.fixture(scope="session", params=[2, 1], ids=["version-2", "version-1"])
def transacting_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Three nodes, with one version of transactions or the other: replication factor 3, min.insync.replicas 2."""
    features = {"transaction.version": request.param}
    with KafkaCluster(3, settings=_SETTINGS, java_options=QUICK_START, features=features) as kafka:
        yield kafka

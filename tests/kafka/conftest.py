"""Real clusters with each version of transactions, shared by several test files here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from tests.kafka.transactions.levels import finalize
from tools.kafka_cluster import KafkaCluster
from tools.kafka_node import QUICK_START

_KINDS: Final = {"version-2": "real_kafka", "version-1": "level1_kafka", "old": "old_kafka"}
# By default the cluster takes nine seconds to notice a dead node, and thirty to exclude a slow one.
_FAULTY: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
}


@pytest.fixture(scope="session", params=_KINDS)
def transacting_kafka(request: pytest.FixtureRequest) -> KafkaCluster:
    """A real Kafka of one node: 4.3 with both versions of transactions, and 3.9."""
    found: KafkaCluster = request.getfixturevalue(_KINDS[request.param])
    return found


@pytest.fixture(scope="session")
def faulty_nodes() -> Iterator[KafkaCluster]:
    """Three nodes that may be killed: replication factor 3, min.insync.replicas 2."""
    with KafkaCluster(3, settings=_FAULTY, java_options=QUICK_START) as kafka:
        yield kafka


@pytest.fixture(scope="session", params=[2, 1], ids=["version-2", "version-1"])
def transacting_nodes(request: pytest.FixtureRequest, faulty_nodes: KafkaCluster) -> KafkaCluster:
    """The three nodes, at one version of transactions or the other."""
    # A loop of its own: that of the tests is not running yet, and would not accept another in its thread.
    with ThreadPoolExecutor(1) as other:
        other.submit(lambda: asyncio.run(finalize(faulty_nodes, request.param))).result()
    return faulty_nodes

"""Clusters whose nodes may be killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from tools.kafka_cluster import KafkaCluster
from tools.kafka_node import QUICK_START

# By default a cluster takes nine seconds to notice a dead node, and thirty to exclude a slow one.
FAULTY: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
}


@contextmanager
def faulty_nodes(count: int) -> Iterator[KafkaCluster]:
    """One or three nodes; each of three has a replica of every partition."""
    with KafkaCluster(count, settings=FAULTY, java_options=QUICK_START) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def one_node() -> Iterator[KafkaCluster]:
    """While the node is gone, no record can be written."""
    with faulty_nodes(1) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[KafkaCluster]:
    """While one node is gone, the others take over."""
    with faulty_nodes(3) as kafka:
        yield kafka

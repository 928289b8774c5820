"""Clusters whose nodes may be killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import attrs
import pytest

from tests.repo.source import ROOT
from tests.soak.secured_nodes import SecuredNodes
from tests.spark.clusters.standalone import StandaloneCluster
from tests.spark.faults.processes import CLUSTER
from tools.kafka_cluster import KafkaCluster
from tools.kafka_node import QUICK_START

# By default a cluster takes nine seconds to notice a dead node, and thirty to exclude a slow one.
FAULTY: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
}


# A second attempt begins a moment after one of three tasks has ended, on the other host.
SPECULATION: Final = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "500ms",
}


@attrs.frozen
class Executors:
    """The master that a driver asks for executors, and the settings of its session."""

    master: str
    settings: dict[str, str] = attrs.field(factory=dict)


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


@pytest.fixture(scope="module")
def secured_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNodes]:
    """Three nodes whose passwords and certificates may change."""
    folder = tmp_path_factory.mktemp("secured-nodes")
    with SecuredNodes(3, settings=FAULTY, java_options=QUICK_START, folder=folder) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def one_host() -> Executors:
    """Two executors that end with their driver."""
    return Executors(CLUSTER)


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executors]:
    """Two executors on two hosts of a standalone cluster, with speculation."""
    own = {"spark.executor.memory": "512m", "spark.executorEnv.PYTHONPATH": str(ROOT)}
    with StandaloneCluster(tmp_path_factory.mktemp("two-hosts")) as cluster:
        yield Executors(cluster.url, SPECULATION | own)

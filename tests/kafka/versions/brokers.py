"""A broker of each line of Kafka since 0.11."""

from __future__ import annotations

from typing import Final

from tools.kafka_cluster import KafkaCluster
from tools.kafka_jars import release
from tools.kafka_node import QUICK_START
from tools.kafka_with_zookeeper import KafkaWithZooKeeper

__all__ = ["VERSIONS", "broker_of"]

# 2.0 to 2.3 do not start on Java 17: their ZooKeeper client does not understand its addresses.
VERSIONS: Final = (
    "0.11.0.3", "1.0.2", "1.1.1", "2.4.1", "2.5.1", "2.8.2", "3.0.2", "3.3.2", "3.6.2", "3.9.1", "4.0.1", "4.1.0",
    "4.3.1", "4.4.0",
)  # fmt: skip
# The first release whose KRaft has transactions for production.
_KRAFT: Final = (3, 3)


def broker_of(version: str) -> KafkaCluster:
    """One node of this version; it runs within `with`."""
    kind = KafkaCluster if release(version) >= _KRAFT else KafkaWithZooKeeper
    return kind(1, version, java_options=QUICK_START)

"""A real Kafka of one or three nodes, started and stopped as a whole, with faults for each node."""

from __future__ import annotations

import base64
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import attrs
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata, PartitionMetadata
from confluent_kafka.cimpl import Consumer, KafkaException, NewTopic, TopicPartition

from tools.kafka_jars import KAFKA_VERSION, KafkaUnavailableError, jar_folder
from tools.kafka_leaders import elect_preferred, prefer
from tools.kafka_node import DATA, KafkaNode, NodePorts, hold_ports

_START_LIMIT: Final = 120.0
_TOPIC_LIMIT: Final = 30.0
_ANSWER_LIMIT: Final = 10.0
_QUIET: Final = logging.getLogger("aioproducer.real_kafka")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


@attrs.define
class KafkaCluster:
    """Nodes that know each other. `with KafkaCluster(3) as kafka: ... kafka.bootstrap_servers`."""

    size: int = 1
    version: str = KAFKA_VERSION
    settings: dict[str, str] = attrs.field(factory=dict)
    java_options: tuple[str, ...] = ()
    features: dict[str, int] = attrs.field(factory=dict)
    classes: Path | None = None
    nodes: list[KafkaNode] = attrs.field(factory=list, init=False)
    _folder: Path | None = attrs.field(default=None, init=False)
    _admin: AdminClient | None = attrs.field(default=None, init=False)

    def start(self) -> None:
        """Format, start and wait until every broker is in the metadata; otherwise raise the reason, with the logs."""
        try:
            # The pid identifies the run of a folder that a killed run has left.
            self._folder = Path(tempfile.mkdtemp(prefix=f"aioproducer-kafka-{os.getpid()}-"))
            self.nodes = self._new_nodes(self._folder)
            self._write_properties()
            self._format()
            for node in self.nodes:
                node.start()
            self.wait_ready(_START_LIMIT)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill every running node and delete their files. Can be called at any time."""
        self._admin = None
        for node in self.nodes:
            if node.running:
                node.kill()
            node.ports.release()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """Every node's address, comma separated."""
        return ",".join(node.address for node in self.nodes)

    def node(self, node_id: int) -> KafkaNode:
        """The node with this broker id (1, 2, 3)."""
        return self.nodes[node_id - 1]

    def create_topic(
        self, name: str, partitions: int = 1, replication_factor: int | None = None, **configs: object
    ) -> str:
        """Create a topic, wait until every running node knows leaders for all its partitions, and return its name.

        `configs` are the topic's settings with underscores for dots: `message_timestamp_type="LogAppendTime"`.
        """
        topic = NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=replication_factor or self.size,
            config={setting.replace("_", "."): str(value) for setting, value in configs.items()},
        )
        self.admin.create_topics([topic])[name].result(_TOPIC_LIMIT)
        for node in [node for node in self.nodes if node.running]:
            self._wait(
                lambda node=node: _knows_leaders(node, name, partitions),  # type: ignore[misc]
                _TOPIC_LIMIT,
                f"node {node.node_id} knew no leaders for all partitions of topic {name}",
            )
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic; the brokers drop its files about a second later."""
        self.admin.delete_topics([name])[name].result(_TOPIC_LIMIT)

    def leaders(self, topic: str) -> list[int]:
        """The leading broker of each partition."""
        found: list[int] = []

        def listed() -> bool:
            # For a moment after the creation of a topic, a broker may answer that it does not exist.
            found[:] = _leaders(self.admin.list_topics(topic, timeout=_ANSWER_LIMIT), topic)
            return bool(found)

        self._wait(listed, _TOPIC_LIMIT, f"nobody told the leaders of topic {topic}")
        return found

    def end_offsets(self, topic: str) -> list[int]:
        """The offset of the next record of each partition."""
        # The end of the log, including open transactions.
        own = {"group.id": "end-offsets", "isolation.level": "read_uncommitted"}
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, **own})
        try:
            partitions = [TopicPartition(topic, number) for number in range(len(self.leaders(topic)))]
            return [consumer.get_watermark_offsets(one, timeout=_ANSWER_LIMIT)[1] for one in partitions]
        finally:
            consumer.close()

    def move_leaders(self, topic: str, leaders: Mapping[int, int]) -> int:
        """Give these partitions these leaders, each of them an in-sync replica; returns the number of moved leaderships."""
        known: dict[int, PartitionMetadata] = {}

        def listed() -> bool:
            # As in leaders(): a broker may not know a new topic yet.
            known.update(self.admin.list_topics(topic, timeout=_ANSWER_LIMIT).topics[topic].partitions)
            return known.keys() >= leaders.keys()

        self._wait(listed, _TOPIC_LIMIT, f"no broker knew the partitions of topic {topic}")
        orders = {
            index: [node, *(other for other in known[index].replicas if other != node)]
            for index, node in leaders.items()
        }
        running = next(node for node in self.nodes if node.running and not node.paused)
        prefer(running.address, topic, orders)
        return elect_preferred(self.admin, topic, list(orders))

    def wait_ready(self, timeout: float = _START_LIMIT) -> None:
        """Wait until every node is in the metadata; also after a restart."""
        self._wait(self._all_registered, timeout, f"not all of {self.size} nodes came up")

    @property
    def admin(self) -> AdminClient:
        """Confluent's admin client for this cluster."""
        if self._admin is None:
            self._admin = _admin(self.bootstrap_servers)
        return self._admin

    def log_tails(self) -> str:
        """The end of every node's log."""
        return "\n".join(node.log_tail() for node in self.nodes)

    def _new_nodes(self, folder: Path) -> list[KafkaNode]:
        return [
            KafkaNode(i, ports, folder / f"node-{i}", self.version, self.java_options, self.classes)
            for i, ports in enumerate(hold_ports(self.size), 1)
        ]

    def _write_properties(self) -> None:
        voters = ",".join(f"{node.node_id}@127.0.0.1:{node.ports.controller}" for node in self.nodes)
        for node in self.nodes:
            node.write_properties(self._properties_of(node, voters))

    def _properties_of(self, node: KafkaNode, voters: str) -> dict[str, str]:
        properties = _node_properties(node.node_id, node.ports, node.folder, voters)
        return properties | _replication_properties(self.size) | self.settings | self._own_settings(node)

    def _own_settings(self, node: KafkaNode) -> dict[str, str]:  # a subclass uses the node
        """The settings of one node, for listeners that a subclass adds."""
        return {}

    def _format(self) -> None:
        """Format the log folders. Kafka's tool does one for each version and set of features, once a machine: a process of Java
        for each node would take half as long as the node's own start.
        """
        cluster_id = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()
        levels = "".join(f"-{name}-{level}" for name, level in sorted(self.features.items()))
        kept = jar_folder(self.version).parent / f"bootstrap{levels}.checkpoint"
        if not kept.exists():
            self._format_by_the_tool(cluster_id, kept)
        for node in self.nodes:
            node.adopt(cluster_id, kept)

    def _format_by_the_tool(self, cluster_id: str, kept: Path) -> None:
        node = self.nodes[0]
        code = node.format(cluster_id, self.features).wait(_START_LIMIT)
        if code:
            raise KafkaUnavailableError(
                f"formatting the storage of Kafka failed (exit code {code})\n{self.log_tails()}"
            )
        # Renamed: another process finds it whole, or not at all.
        whole = kept.with_name(f"{kept.name}-{os.getpid()}")
        shutil.copy(node.bootstrap, whole)
        whole.replace(kept)

    def _all_registered(self) -> bool:
        gone = [node.node_id for node in self.nodes if not node.running]
        if gone:
            raise KafkaUnavailableError(f"Kafka nodes {gone} ended while starting\n{self.log_tails()}")
        if not all(node.accepts_connections() for node in self.nodes):
            return False
        return len(self.admin.list_topics(timeout=_ANSWER_LIMIT).brokers) == self.size

    def _wait(self, condition: Callable[[], bool], limit: float, otherwise: str) -> None:
        deadline = time.monotonic() + limit
        while not _holds(condition):
            if time.monotonic() > deadline:
                raise KafkaUnavailableError(f"Kafka: {otherwise} within {limit:g} s\n{self.log_tails()}")
            time.sleep(0.05)


def _holds(condition: Callable[[], bool]) -> bool:
    """A cluster that does not answer yet is not ready yet."""
    try:
        return condition()
    except KafkaException:
        return False


def _admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers}, logger=_QUIET)


def _knows_leaders(node: KafkaNode, topic: str, partitions: int) -> bool:
    # A new client, because one that has learned of the other nodes may ask any of them.
    metadata = _admin(node.address).list_topics(topic, timeout=_ANSWER_LIMIT)
    leaders = _leaders(metadata, topic)
    return len(leaders) == partitions and min(leaders) > 0


def _leaders(metadata: ClusterMetadata, topic: str) -> list[int]:
    partitions = metadata.topics[topic].partitions
    return [partitions[number].leader for number in sorted(partitions)]


def _node_properties(node_id: int, ports: NodePorts, folder: Path, voters: str) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://127.0.0.1:{ports.broker},CONTROLLER://127.0.0.1:{ports.controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports.broker}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(folder / DATA),
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.segment.delete.delay.ms": "1000",
        # Two records a second that say nothing are half of the processor time of an idle node.
        "metadata.max.idle.interval.ms": "0",
    }


def _replication_properties(size: int) -> dict[str, str]:
    min_in_sync = "2" if size > 1 else "1"
    return {
        "default.replication.factor": str(size),
        "min.insync.replicas": min_in_sync,
        "offsets.topic.replication.factor": str(size),
        "transaction.state.log.replication.factor": str(size),
        "transaction.state.log.min.isr": min_in_sync,
    }

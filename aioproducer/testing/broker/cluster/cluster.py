"""The state that all brokers of the embedded cluster share: nodes, topics, leaders, producers, transactions, groups."""

from __future__ import annotations

import base64
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import attrs

from aioproducer._wire.apis import APIS, TELEMETRY_APIS
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.cluster.coordinators import Coordinators
from aioproducer.testing.broker.cluster.groups import OFFSETS_TOPIC, Groups
from aioproducer.testing.broker.cluster.telemetry import ClientMetrics
from aioproducer.testing.broker.cluster.topics import (
    NO_LEADER,
    Partition,
    Topic,
    collide,
    invalid_config,
    invalid_name,
)
from aioproducer.testing.broker.cluster.transactions import Transaction, Transactions
from aioproducer.testing.broker.effects import Changes
from aioproducer.testing.broker.history import SeenRequest
from aioproducer.testing.broker.logs.log import PartitionLog, Stamp
from aioproducer.testing.broker.logs.markers import Marker
from aioproducer.testing.broker.logs.producer_state import ProducerStates
from aioproducer.testing.broker.options import Options

MAX_REPLICATION: Final = 3


class ClusterRefusal(ValueError):  # noqa: N818 - an answer of the cluster, not a failure of it
    """The cluster refuses a request with a Kafka error code."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


@attrs.define
class Node:
    """One broker in the metadata."""

    id: int
    host: str
    port: int = 0
    up: bool = False


class Ranged(Protocol):
    """The facts of an API's handler that the cluster uses."""

    @property
    def key(self) -> int:
        """The API key."""

    @property
    def min_version(self) -> int:
        """The oldest supported version."""

    @property
    def max_version(self) -> int:
        """The newest supported version."""


def key_of(api: str) -> int:
    """The key of an API by Kafka's name for it."""
    for key, known in APIS.items():
        if known.name == api:
            return key
    known_names = ", ".join(sorted(known.name for known in APIS.values()))
    raise ValueError(f"no API is named {api!r}; the embedded Kafka supports {known_names}")


def system_time() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@attrs.define(eq=False)
class Cluster:
    """The state behind all brokers; changed only by their handlers, the faults and `EmbeddedKafka`."""

    options: Options
    nodes: dict[int, Node]
    clock: Callable[[], float] = time.monotonic
    """Seconds, for time limits and expiry."""
    wall_clock: Callable[[], int] = system_time
    """Milliseconds since the epoch, for timestamps."""
    topics: dict[str, Topic] = attrs.field(factory=dict, init=False)
    topics_by_id: dict[bytes, Topic] = attrs.field(factory=dict, init=False)
    hidden: set[tuple[str, int | None]] = attrs.field(factory=set, init=False)
    groups: Groups = attrs.field(init=False)
    coordinators: Coordinators = attrs.field(factory=Coordinators, init=False)
    transactions: Transactions = attrs.field(init=False)
    metrics: ClientMetrics = attrs.field(init=False)
    transaction_version: int = attrs.field(init=False)
    features_epoch: int = attrs.field(default=1, init=False)
    """Increases with each change of `transaction_version`."""
    changes: Changes = attrs.field(factory=Changes, init=False)
    _version_limits: dict[int, tuple[int, int]] = attrs.field(factory=dict, init=False)
    requests: deque[SeenRequest] = attrs.field(init=False)
    cluster_id: str = attrs.field(init=False)
    _random: random.Random = attrs.field(init=False)
    _next_producer_id: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.requests = deque(maxlen=self.options.history)
        self.transaction_version = self.options.transaction_version
        self.groups = Groups(self.clock, self.options.offsets_retention)
        self.transactions = Transactions(
            self.new_producer_id,
            self.clock,
            self.wall_clock,
            self._write_markers,
            self.options.transaction_max_timeout_ms,
            self.options.marker_delay,
            self.options.transactional_id_expiration,
        )
        self._random = random.Random(self.options.seed)  # noqa: S311 - names of topics, to be replayed
        self.metrics = ClientMetrics(self.clock, self.options.telemetry_max_bytes, self._random)
        self.cluster_id = base64.urlsafe_b64encode(self._random.randbytes(16)).decode().rstrip("=")

    # ----- nodes

    def node(self, broker_id: int) -> Node:
        """The broker with this id; a KeyError names the existing ones."""
        try:
            return self.nodes[broker_id]
        except KeyError:
            raise KeyError(f"no broker {broker_id}; the embedded Kafka has {sorted(self.nodes)}") from None

    def live_nodes(self) -> list[Node]:
        """The brokers that are up."""
        return [node for node in self.nodes.values() if node.up]

    @property
    def controller_id(self) -> int:
        """The lowest broker that is up."""
        return min((node.id for node in self.live_nodes()), default=NO_LEADER)

    def broker_up(self, broker_id: int) -> None:
        """A broker started: it leads the partitions without another leader, and follows the others."""
        self.node(broker_id).up = True
        live = {node.id for node in self.live_nodes()}
        for partition in self._partitions():
            partition.come_back(broker_id, live)
        self.changes.notify()

    def broker_down(self, broker_id: int) -> None:
        """A broker stopped."""
        self.node(broker_id).up = False
        for partition in self._partitions():
            partition.leave(broker_id)
        self.changes.notify()

    # ----- topics

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
        *,
        assignments: Sequence[tuple[int, ...]] = (),
        dry_run: bool = False,
    ) -> Topic:
        """Create a topic, with its leaders spread over the live brokers; `ClusterRefusal` if it is invalid.

        `assignments` may name the replicas of each partition, the leader first.
        """
        if assignments:
            partitions, replication_factor = len(assignments), self._common_size(assignments)
        count = self.options.default_partitions if partitions is None else partitions
        replicas = self._replication_factor() if replication_factor is None else replication_factor
        self._check_new_topic(name, count, replicas, configs or {})
        topic = Topic(name, self._random.randbytes(16), [], dict(configs or {}))
        self._add_partitions(topic, count, replicas)
        for partition, brokers in zip(topic.partitions, assignments, strict=False):
            partition.assign(brokers)
        if not dry_run:
            self.topics[name] = self.topics_by_id[topic.id] = topic
        return topic

    def delete_topic(self, name: str) -> None:
        """Delete the topic and its records; a later topic of the same name has another id."""
        topic = self.topic(name)
        del self.topics[name]
        del self.topics_by_id[topic.id]
        self.changes.notify()

    def add_partitions(self, name: str, total: int, *, dry_run: bool = False) -> None:
        """Let a topic have `total` partitions; never fewer than now."""
        topic = self.topic(name)
        present = len(topic.partitions)
        if total <= present:
            raise ClusterRefusal(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {name} currently has {present} partition(s); {total} would not be an increase.",
            )
        if not dry_run:
            self._add_partitions(topic, total - present, len(topic.partitions[0].replicas))

    def topic(self, name: str) -> Topic:
        """The topic, or `ClusterRefusal` if there is none."""
        topic = self.topics.get(name)
        if topic is None:
            raise ClusterRefusal(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the embedded Kafka has no topic {name!r}"
            )
        return topic

    def partition(self, name: str, index: int) -> Partition:
        """One partition, or `ClusterRefusal` if there is none."""
        topic = self.topic(name)
        found = topic.partition(index)
        if found is None:
            raise ClusterRefusal(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {name!r} has partitions 0 to {len(topic.partitions) - 1}, not {index}",
            )
        return found

    def find(self, name: str, topic_id: bytes, *, by_id: bool) -> Topic | None:
        """The topic of a request, by its id in newer versions."""
        return self.topics_by_id.get(topic_id) if by_id else self.topics.get(name)

    def is_hidden(self, name: str, broker_id: int) -> bool:
        """Whether this broker omits the topic from its metadata."""
        return (name, None) in self.hidden or (name, broker_id) in self.hidden

    def move_leader(self, name: str, index: int, broker_id: int) -> None:
        """Set another leader; it becomes a replica if it was none."""
        partition = self.partition(name, index)
        if broker_id != NO_LEADER and self.node(broker_id).id not in partition.replicas:
            partition.replicas = (*partition.replicas, broker_id)
        if broker_id != NO_LEADER and broker_id not in partition.isr:
            partition.isr = (*partition.isr, broker_id)
        partition.lead(broker_id)
        self.changes.notify()

    def truncate(self, name: str, index: int, end_offset: int) -> None:
        """Lose the records from `end_offset` on."""
        partition = self.partition(name, index)
        partition.log.truncate(end_offset, self.clock())
        partition.leader_epoch += 1
        self.changes.notify()

    def limit_version(self, api: str, low: int, high: int) -> None:
        """Support only these versions of an API."""
        self._version_limits[key_of(api)] = (low, high)

    def offers(self, handler: Ranged) -> bool:
        """Whether the brokers have this API at all."""
        return self.options.telemetry or handler.key not in TELEMETRY_APIS

    def versions(self, handler: Ranged) -> tuple[int, int]:
        """The supported versions of an API."""
        return self._version_limits.get(handler.key, (handler.min_version, handler.max_version))

    # ----- producers

    def new_producer_id(self) -> int:
        """A new producer id."""
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def set_transaction_version(self, level: int) -> None:
        """Finalize another level of the feature `transaction.version`; nothing else changes."""
        self.transaction_version = level
        self.features_epoch += 1

    # ----- coordinators

    def coordinator(self, key: str) -> Node | None:
        """The coordinator of a group or a transactional id, None if no broker is up."""
        found = self.coordinators.find(key, [node.id for node in self.live_nodes()])
        return None if found is None else self.nodes[found]

    def coordinator_error(self, key: str, broker_id: int) -> ErrorCode:
        """The error of a broker that is asked as the coordinator of this group or transactional id."""
        live = [node.id for node in self.live_nodes()]
        return self.coordinators.error(key, broker_id, live, self.clock())

    def move_coordinator(self, key: str, broker_id: int, loading: float = 0.0) -> None:
        """Move a key to another coordinator, which loads for this number of seconds."""
        loaded_at = self.clock() + loading if loading else None
        self.coordinators.move(key, self.node(broker_id).id, loaded_at)
        self.changes.notify()

    def _write_markers(self, ended: Transaction) -> None:
        """End a transaction in all its logs, except those without a leader."""
        coordinator_epoch = self.coordinators.epoch(ended.id)
        marker = Marker(ended.producer_id, ended.epoch, ended.commits, coordinator_epoch)
        for place in tuple(ended.partitions):
            if self._write_marker(marker, *place):
                del ended.partitions[place]
                self.changes.notify()

    def _write_marker(self, marker: Marker, name: str, index: int) -> bool:
        """Whether the transaction has ended in this partition; in a deleted topic it has."""
        if name == OFFSETS_TOPIC:
            self.groups.end(marker.producer_id, commit=marker.commit)
            return True
        topic = self.topics.get(name)
        partition = topic.partition(index) if topic is not None else None
        if partition is not None and partition.leader == NO_LEADER:
            return False
        if partition is not None:
            stamp = Stamp(partition.leader_epoch, self.clock())
            partition.log.end_transaction(marker, stamp, self.wall_clock())
        return True

    def _replication_factor(self) -> int:
        return self.options.replication_factor or min(len(self.nodes), MAX_REPLICATION)

    def _check_new_topic(self, name: str, count: int, replicas: int, configs: Mapping[str, str]) -> None:
        problem = invalid_name(name)
        if problem is not None:
            raise ClusterRefusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        twin = next((known for known in self.topics if collide(known, name)), None)
        if twin is not None:
            raise ClusterRefusal(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {twin}"
            )
        if name in self.topics:
            raise ClusterRefusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if count <= 0:
            raise ClusterRefusal(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        if not 0 < replicas <= len(self.nodes):
            raise ClusterRefusal(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {replicas} time(s): {len(self.nodes)} broker(s) are registered.",
            )
        for key, value in configs.items():
            problem = invalid_config(key, value)
            if problem is not None:
                raise ClusterRefusal(ErrorCode.INVALID_CONFIG, problem)

    def _common_size(self, assignments: Sequence[tuple[int, ...]]) -> int:
        for brokers in assignments:
            distinct = set(brokers)
            if (
                not self.nodes.keys() >= distinct
                or not len(distinct) == len(brokers) == len(assignments[0]) > 0
            ):
                raise ClusterRefusal(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"The replicas {list(brokers)} are not as many distinct brokers as those of partition 0.",
                )
        return len(assignments[0])

    def _add_partitions(self, topic: Topic, count: int, replicas: int) -> None:
        ids = [node.id for node in self.live_nodes()] or list(self.nodes)
        for index in range(len(topic.partitions), len(topic.partitions) + count):
            chosen = tuple(ids[(index + i) % len(ids)] for i in range(min(replicas, len(ids))))
            log = PartitionLog(ProducerStates(self.options.producer_expiration))
            topic.partitions.append(Partition(index, chosen, chosen, chosen[0], log=log))

    def _partitions(self) -> list[Partition]:
        return [partition for topic in self.topics.values() for partition in topic.partitions]

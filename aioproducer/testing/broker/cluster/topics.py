"""A topic: its partitions with their leaders, and its configuration."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

import attrs

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.logs.log import PartitionLog

NO_LEADER: Final = -1
NO_TOPIC_ID: Final = bytes(16)
MAX_NAME: Final = 249

DEFAULT_CONFIGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "max.message.bytes": "1048588",
        "message.timestamp.after.max.ms": "3600000",
        "message.timestamp.before.max.ms": "9223372036854775807",
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": "1",
        "retention.ms": "604800000",
        "segment.bytes": "1073741824",
    }
)


@attrs.define
class Partition:
    """One partition: its leader, its replicas, and its log (all replicas are always equal here)."""

    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    log: PartitionLog = attrs.field(factory=PartitionLog)
    restarted: dict[int, int] = attrs.field(factory=dict, init=False)
    """The end of the log when a broker restarted that has not led since."""

    def lead(self, broker_id: int) -> None:
        """Set another leader, or none; each change is a new leader epoch."""
        if broker_id != self.leader:
            self.leader = broker_id
            self.leader_epoch += 1
            if broker_id in self.restarted:
                self.log.producers.reload(self.restarted.pop(broker_id))

    def assign(self, brokers: tuple[int, ...]) -> None:
        """Place the partition on these brokers; the first one leads."""
        self.replicas = self.isr = brokers
        self.leader = brokers[0]

    def leave(self, broker_id: int) -> None:
        """A replica stopped. The last one stays in the ISR: another leader would lose records."""
        if broker_id in self.isr and len(self.isr) > 1:
            self.isr = tuple(replica for replica in self.isr if replica != broker_id)
        if self.leader == broker_id:
            self.lead(next((replica for replica in self.isr if replica != broker_id), NO_LEADER))

    def come_back(self, broker_id: int, live: Collection[int]) -> None:
        """A replica restarted; it leads if the partition has no leader, and the others follow."""
        if broker_id not in self.replicas:
            return
        self.restarted[broker_id] = self.log.end_offset
        if self.leader == NO_LEADER and broker_id in self.isr:
            self.lead(broker_id)
            waiting = [replica for replica in self.replicas if replica in live and replica not in self.isr]
            self.isr = (*self.isr, *waiting)
        if broker_id not in self.isr and self.leader != NO_LEADER:
            self.isr = (*self.isr, broker_id)


def wrong_epoch(partition: Partition, asked: int) -> int:
    """The error for a reader with another leader epoch (KIP-320); 0 for the same epoch, or none."""
    if asked in (-1, partition.leader_epoch):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if asked < partition.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


@attrs.define
class Topic:
    """A topic of the cluster. A recreated topic is another topic with another id."""

    name: str
    id: bytes
    partitions: list[Partition]
    configs: dict[str, str] = attrs.field(factory=dict)
    max_message_bytes: int = attrs.field(init=False, default=0)
    log_append_time: bool = attrs.field(init=False, default=False)
    min_insync_replicas: int = attrs.field(init=False, default=1)
    timestamp_after_max_ms: int = attrs.field(init=False, default=0)
    timestamp_before_max_ms: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self.configure({})

    def partition(self, index: int) -> Partition | None:
        """The partition with this index."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def config(self, name: str) -> str:
        """The effective value."""
        return self.configs.get(name, DEFAULT_CONFIGS[name])

    def configure(self, configs: Mapping[str, str]) -> None:
        """Change settings, and cache those that are read for each batch."""
        self.configs.update(configs)
        self.max_message_bytes = int(self.config("max.message.bytes"))
        self.log_append_time = self.config("message.timestamp.type") == "LogAppendTime"
        self.min_insync_replicas = int(self.config("min.insync.replicas"))
        self.timestamp_after_max_ms = int(self.config("message.timestamp.after.max.ms"))
        self.timestamp_before_max_ms = int(self.config("message.timestamp.before.max.ms"))


def invalid_name(name: str) -> str | None:
    """Kafka's reason to refuse this topic name (`Topic.validate`), or None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in {".", ".."}:
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_NAME:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_NAME}"
        )
    if not re.fullmatch(r"[a-zA-Z0-9._-]+", name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def collide(one: str, other: str) -> bool:
    """Whether both names have the same metric name, which Kafka refuses (`Topic.hasCollision`)."""
    return one != other and one.replace(".", "_") == other.replace(".", "_")


def invalid_config(name: str, value: str) -> str | None:
    """The reason to refuse this topic configuration, or None."""
    if name not in DEFAULT_CONFIGS:
        return f"Unknown topic config name: {name}"
    numeric = DEFAULT_CONFIGS[name].isdigit()
    if numeric and not re.fullmatch(r"-?\d+", value):
        return f"Invalid value {value} for configuration {name}: Not a number"
    if name == "message.timestamp.type" and value not in {"CreateTime", "LogAppendTime"}:
        return f"Invalid value {value} for configuration {name}: String must be one of: CreateTime, LogAppendTime"
    return None

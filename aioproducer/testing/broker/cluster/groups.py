"""Offsets of groups: committed ones, and those that wait for the end of a transaction.

Groups are not rebalanced here: a test sets their members. The checks are those of Kafka's `ClassicGroup`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from aioproducer._wire.error_codes import ErrorCode

OFFSETS_TOPIC: Final = "__consumer_offsets"
_OFFSETS_PARTITIONS: Final = 50
MAX_METADATA: Final = 4096

TopicPartition = tuple[str, int]


@attrs.frozen
class CommittedOffset:
    """An offset that a group committed for a partition."""

    offset: int
    leader_epoch: int
    metadata: str | None
    number: int = 0
    """Counts the offsets of the cluster: of two, the later one is valid, also if it was committed first."""
    committed_at: float = 0.0
    """The time of the request, of which the retention counts."""


@attrs.define
class PendingOffsets:
    """The offsets of one producer for a group in an open transaction."""

    epoch: int
    offsets: dict[TopicPartition, CommittedOffset] = attrs.field(factory=dict)


@attrs.define
class Group:
    """One group."""

    committed: dict[TopicPartition, CommittedOffset] = attrs.field(factory=dict)
    pending: dict[int, PendingOffsets] = attrs.field(factory=dict)
    generation: int = -1
    members: dict[str, str | None] = attrs.field(factory=dict)
    """The members' ids, and the instance ids of those that are static."""

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Whether an offset of an open transaction exists."""
        return any(partition in one.offsets for one in self.pending.values())

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Whether this producer has offsets here in its open transaction."""
        known = self.pending.get(producer_id)
        return known is not None and known.epoch == epoch

    def forget(self, before: float) -> None:
        """Forget offsets that were committed by this time, unless the group has members or an open transaction for them."""
        if self.members:
            return
        for partition, noted in list(self.committed.items()):
            if noted.committed_at <= before and not self.is_unstable(partition):
                del self.committed[partition]

    def member_error(self, generation: int, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether this member may commit in a transaction (KIP-447). A commit without a member may."""
        if generation < 0 and not self.members:
            return ErrorCode.NONE
        if generation < 0 and not member_id and instance_id is None:
            return ErrorCode.NONE
        if instance_id is not None:
            owner = next((one for one, instance in self.members.items() if instance == instance_id), None)
            if owner != member_id:
                return ErrorCode.UNKNOWN_MEMBER_ID if owner is None else ErrorCode.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def note(self, producer_id: int, epoch: int, partition: TopicPartition, noted: CommittedOffset) -> None:
        """Store an offset until the transaction ends."""
        if not self.has_open(producer_id, epoch):
            self.pending[producer_id] = PendingOffsets(epoch)
        self.pending[producer_id].offsets[partition] = noted

    def end(self, producer_id: int, *, commit: bool) -> None:
        """End the transaction: its offsets become valid, or are discarded."""
        pending = self.pending.pop(producer_id, None)
        if pending is None or not commit:
            return
        for partition, noted in pending.offsets.items():
            known = self.committed.get(partition)
            if known is None or known.number < noted.number:
                self.committed[partition] = noted


@attrs.define
class Groups:
    """All groups of the cluster, by name."""

    clock: Callable[[], float]
    retention: float
    """Seconds after which an offset of a group without members is forgotten, as `offsets.retention.minutes`."""
    _known: dict[str, Group] = attrs.field(factory=dict, init=False)
    _noted: int = attrs.field(default=0, init=False)

    def get(self, name: str) -> Group | None:
        """The group, or None if no offset and no member was ever set."""
        group = self._known.get(name)
        if group is not None:
            group.forget(self.clock() - self.retention)
        return group

    def make(self, name: str) -> Group:
        """The group; it is created if it does not exist."""
        return self._known.setdefault(name, Group())

    def set(self, name: str, generation: int, members: Mapping[str, str | None]) -> None:
        """Set the members of a group."""
        group = self.make(name)
        group.generation, group.members = generation, dict(members)

    def noted(self, offset: int, leader_epoch: int, metadata: str | None) -> CommittedOffset:
        """The next number."""
        self._noted += 1
        return CommittedOffset(offset, leader_epoch, metadata, self._noted, self.clock())

    def end(self, producer_id: int, *, commit: bool) -> None:
        """End a producer's transaction in all groups."""
        for group in self._known.values():
            group.end(producer_id, commit=commit)


def offsets_partition(group: str) -> TopicPartition:
    """The partition of Kafka's offsets topic that a transaction with offsets of this group writes to.

    By Java's hash of strings, so that DescribeTransactions answers like a real cluster.
    """
    number = 0
    units = group.encode("utf-16-be")
    for at in range(0, len(units), 2):
        number = (number * 31 + int.from_bytes(units[at : at + 2], "big")) % 2**32
    return OFFSETS_TOPIC, number % 2**31 % _OFFSETS_PARTITIONS

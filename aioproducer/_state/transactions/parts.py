"""The parts of one transaction, and the facts about it at its coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from aioproducer.records import GroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from aioproducer._state.identity.standing import Identity, Standing
    from aioproducer._state.queues.partition_queue import PartitionQueue

Place = tuple[str, int]
"""A partition: its topic's name, and its number."""


@attrs.define(eq=False)
class TransactionParts:
    """Facts about the transaction that is open, or was the last. `level` is the version of the protocol, 1 or 2."""

    level: int
    partitions: set[Place] = attrs.Factory(set)
    """On level 1: the partitions that the coordinator has added; records may be sent only to these."""
    wanted: dict[Place, PartitionQueue] = attrs.Factory(dict)
    """On level 1: the partitions that records wait for."""
    groups: set[str] = attrs.Factory(set)
    """Groups whose offsets are part of it."""
    recorded: list[tuple[GroupMetadata, dict[TopicPartition, OffsetAndMetadata]]] = attrs.Factory(list)
    """Offsets that were not sent yet, with the facts of the group under which they were recorded, in the order of their requests."""
    late_offsets: dict[tuple[str, TopicPartition], OffsetAndMetadata] = attrs.Factory(dict)
    """By group and partition: offsets of requests without an answer, which were repeated and may be executed late."""
    records_sent: bool = False
    opened: bool = False
    """The coordinator has it open: an answer said so, or a record of it was written."""
    in_doubt: bool = False
    """A request to the coordinator has no answer."""
    has_lost_attempts: bool = False
    """An attempt at a request got no answer, and may be executed late; a later attempt of the same request may have succeeded."""
    is_unclear: bool = False
    """Its id is refused, and the coordinator's state fits a successor as well as an abort at the time limit."""
    is_newest: bool = False
    """The coordinator's last answer about its id names the present identity: no other producer has taken over."""
    forgotten: bool = False
    """The coordinator does not know the producer under its transactional id: the next transaction needs a new identity."""
    failed: bool = False
    """A batch that was sent failed, or its outcome is unknown; or a group refused offsets that its transaction might contain."""
    asked_to_commit: bool = False
    """The newest request for its end asks for a commit."""
    end_in_doubt: bool = False
    """A request for its end may have been executed, or may be executed yet."""
    ended: bool = False
    """The coordinator has ended it already."""

    @property
    def may_be_committed(self) -> bool:
        """Whether the coordinator was asked to commit it, and has done so or may do it."""
        return self.asked_to_commit and (self.ended or self.end_in_doubt)

    @property
    def was_opened(self) -> bool:
        """Whether the coordinator had it open, or on level 2 may have had: the first records or offsets of a group open it.

        Their answer may be lost, and the transaction may exceed its time limit meanwhile. On level 2 that is no doubt: the end
        of a successor's transaction would have raised the epoch a second time.
        """
        return self.opened or (self.level == 2 and (self.records_sent or bool(self.groups)))

    @property
    def may_be_open(self) -> bool:
        """On level 1: whether a request that opens it has no answer, and nothing else shows that the coordinator has it open."""
        return self.level == 1 and self.in_doubt and not self.opened

    @property
    def may_have_been_open(self) -> bool:
        """Whether the coordinator had it open, or may have had, and did not answer that it has ended."""
        return (self.was_opened or self.may_be_open) and not self.ended

    @property
    def is_still_open(self) -> bool:
        """Whether nothing but the coordinator, by itself, or a successor can have ended it.

        On level 1 an end that was executed leaves the epoch as it is. A successor may have come after it, and its first transaction
        has the epoch that an end by the coordinator gives. On level 2 the successor's epoch is a higher one.
        """
        in_doubt = self.level == 1 and self.end_in_doubt
        return self.was_opened and not (self.ended or in_doubt)

    def shows_double_abort(self, standing: Standing, identity: Identity) -> bool:
        """Whether a coordinator of Kafka 4.0.0 has aborted it by itself, if it was not committed."""
        was_open = self.level == 2 and self.opened and not self.ended
        return was_open and standing.shows_double_abort(identity)

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to end, here or at the coordinator."""
        if self.level == 1:
            return not (self.partitions or self.groups or self.in_doubt or self.forgotten)
        return not (self.records_sent or self.groups)

    @property
    def is_clean(self) -> bool:
        """Whether no request of it can arrive after its end."""
        return not (self.failed or self.in_doubt or self.forgotten or self.has_lost_attempts)

    def record(self, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Keep offsets until they are sent. The newest of a partition counts.

        Each is sent with its own facts: after a rebalance the group has to refuse the offsets from before it. Under the newer
        facts it would take the offset of a partition that another member reads again.
        """
        if not offsets:
            return
        of_group = [at for at, (known, _) in enumerate(self.recorded) if known.group_id == group.group_id]
        if not of_group or self.recorded[of_group[-1]][0] != group:
            self.recorded.append((group, dict(offsets)))
        else:
            newest = of_group[-1]
            self.recorded[newest] = group, self.recorded[newest][1] | dict(offsets)

    def may_undo(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> bool:
        """Whether a late request may replace one of these offsets by another one, which the transaction would commit."""
        return any(
            self.late_offsets.get((group_id, place), offset) != offset for place, offset in offsets.items()
        )

"""What the coordinators would know, if a `MockProducer` had any: offsets of groups, and transactional ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import attrs

from aioproducer.records import OffsetAndMetadata, TopicPartition, TransactionListing

Offsets: TypeAlias = dict[TopicPartition, OffsetAndMetadata]
"""What a group has committed, by partition."""


@attrs.define(eq=False)
class MockCoordinators:
    """The facts about one mock, and those about others that its test has told."""

    offsets: dict[str, Offsets] = attrs.Factory(dict)
    listings: dict[str, TransactionListing] = attrs.Factory(dict)
    fenced: list[str] = attrs.Factory(list)
    """Whom the code under test has fenced, in order."""

    def commit(self, offsets: Mapping[str, Offsets]) -> None:
        """Groups have got new offsets."""
        for group, by_partition in offsets.items():
            self.offsets.setdefault(group, {}).update(by_partition)

    def committed(self, group: str, places: Iterable[TopicPartition]) -> Offsets:
        """The offsets of a group; partitions without one are left out."""
        known = self.offsets.get(group, {})
        return {place: known[place] for place in places if place in known}

    def note(self, transactional_id: str, state: str, producer_id: int | None = None) -> None:
        """A transactional id is in another state; it keeps its producer id unless there is a new one."""
        known = self.listings.get(transactional_id)
        if producer_id is None:
            producer_id = len(self.listings) if known is None else known.producer_id
        self.listings[transactional_id] = TransactionListing(transactional_id, producer_id, state)

    def fence(self, transactional_id: str) -> None:
        """Somebody else gets a new epoch for this id, which ends what is open under it."""
        self.fenced.append(transactional_id)
        self.note(transactional_id, "Empty")

    def listed(self, prefix: str) -> list[TransactionListing]:
        """The ids that begin so, in order."""
        return [self.listings[name] for name in sorted(self.listings) if name.startswith(prefix)]

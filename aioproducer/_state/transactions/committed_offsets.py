"""The committed offsets of a group: the request, and the conclusions from its answer.

An answer without a partition does not say that no offset is committed there: only offset -1 says so. To confuse the two
would repeat finished work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any, Final

from aioproducer._wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from aioproducer.errors import ProtocolError
from aioproducer.records import OffsetAndMetadata, TopicPartition

__all__ = ["committed_by", "to_fetch_offsets"]

GROUPS_FROM: Final = 8
NOTHING_COMMITTED: Final = -1

Committed = dict[TopicPartition, OffsetAndMetadata]


def to_fetch_offsets(group: str, places: Iterable[TopicPartition], version: int) -> OffsetFetchRequest:
    """Ask for these, and not for what an open transaction may still change."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    for place in places:
        by_topic[place.topic].append(place.partition)
    if version >= GROUPS_FROM:
        topics = [OffsetFetchRequestTopics(name, partition_indexes=found) for name, found in by_topic.items()]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)], require_stable=True)
    return OffsetFetchRequest(
        group, [OffsetFetchRequestTopic(name, found) for name, found in by_topic.items()], require_stable=True
    )


def committed_by(
    answer: OffsetFetchResponse, group: str, places: Collection[TopicPartition], version: int
) -> tuple[int, Committed]:
    """The code that the answer comes to, and the offsets that are committed; places without one are left out.

    ProtocolError if the answer leaves out a place, or contradicts itself.
    """
    told = _of_group(answer, group, version)
    if told.error_code:
        return told.error_code, {}
    found = _by_place(told)
    wanted = {place: found[place] for place in places if place in found}
    if code := next((one.error_code for one in wanted.values() if one.error_code), 0):
        return code, {}
    missing = [place for place in places if place not in wanted]
    if missing:
        raise ProtocolError(f"the broker's OffsetFetch answer for group {group!r} lacks {_name(missing[0])}")
    return 0, {
        place: OffsetAndMetadata(one.committed_offset, one.metadata or "", one.committed_leader_epoch)
        for place, one in wanted.items()
        if one.committed_offset != NOTHING_COMMITTED
    }


def _of_group(answer: OffsetFetchResponse, group: str, version: int) -> Any:
    if version < GROUPS_FROM:
        return answer
    for one in answer.groups:
        if one.group_id == group:
            return one
    raise ProtocolError(f"the broker's OffsetFetch answer lacks group {group!r}")


def _by_place(told: Any) -> dict[TopicPartition, Any]:
    found: dict[TopicPartition, Any] = {}
    for topic in told.topics:
        for partition in topic.partitions:
            place = TopicPartition(topic.name, partition.partition_index)
            if found.setdefault(place, partition) != partition:
                raise ProtocolError(f"the broker's OffsetFetch answer has {_name(place)} twice")
            if partition.committed_offset < NOTHING_COMMITTED:
                raise ProtocolError(
                    f"the broker's OffsetFetch answer has offset {partition.committed_offset} for {_name(place)}"
                )
    return found


def _name(place: TopicPartition) -> str:
    return f"partition {place.partition} of topic {place.topic!r}"

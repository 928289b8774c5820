"""OffsetFetch: the committed offsets of groups; -1 without one.

With `require_stable` (v7, KIP-447) an offset that an open transaction may still change is UNSTABLE_OFFSET_COMMIT.

v1 is the first supported one; v2 null for "all partitions"; v5 leader epochs; v6 flexible; v8 many groups at once; v10
topics by id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.groups import CommittedOffset, Group

_NOTHING = CommittedOffset(-1, -1, "")


def answer(call: Call) -> Message:
    """The offsets of each group."""
    request: OffsetFetchRequest = call.request
    if call.version >= 8:
        return OffsetFetchResponse(groups=[_group(call, group) for group in request.groups])
    group = _group(call, OffsetFetchRequestGroup(request.group_id, topics=_widened(request)))
    return OffsetFetchResponse(topics=[_plain(topic) for topic in group.topics], error_code=group.error_code)


def _widened(request: OffsetFetchRequest) -> list[OffsetFetchRequestTopics] | None:
    if request.topics is None:
        return None
    return [
        OffsetFetchRequestTopics(one.name, partition_indexes=one.partition_indexes) for one in request.topics
    ]


def _group(call: Call, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    wrong = call.coordinator_error(asked.group_id)
    if wrong != ErrorCode.NONE:
        return OffsetFetchResponseGroup(asked.group_id, error_code=wrong)
    known = call.cluster.groups.get(asked.group_id) or Group()
    topics = _all_committed(known.committed) if asked.topics is None else asked.topics
    return OffsetFetchResponseGroup(asked.group_id, [_topic(call, topic, known) for topic in topics])


def _all_committed(known: Iterable[tuple[str, int]]) -> list[OffsetFetchRequestTopics]:
    partitions: dict[str, list[int]] = defaultdict(list)
    for topic, index in known:
        partitions[topic].append(index)
    return [
        OffsetFetchRequestTopics(topic, partition_indexes=indexes) for topic, indexes in partitions.items()
    ]


def _topic(call: Call, asked: OffsetFetchRequestTopics, known: Group) -> OffsetFetchResponseTopics:
    topic = call.cluster.find(asked.name, asked.topic_id, by_id=not asked.name)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if topic is None and not asked.name else ErrorCode.NONE
    name = asked.name if topic is None else topic.name
    partitions = [_partition(call, known, (name, index), unknown) for index in asked.partition_indexes]
    return OffsetFetchResponseTopics(name, bytes(16) if topic is None else topic.id, partitions)


def _partition(
    call: Call, known: Group, place: tuple[str, int], unknown: ErrorCode
) -> OffsetFetchResponsePartitions:
    if call.request.require_stable and known.is_unstable(place):
        unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
        return OffsetFetchResponsePartitions(place[1], -1, -1, "", unstable)
    one = known.committed.get(place, _NOTHING)
    return OffsetFetchResponsePartitions(place[1], one.offset, one.leader_epoch, one.metadata, unknown)


def _plain(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        topic.name, [OffsetFetchResponsePartition(*one) for one in topic.partitions]
    )


HANDLER = Handler(9, 1, 10, answer)

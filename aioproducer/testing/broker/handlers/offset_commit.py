"""OffsetCommit: store the offsets of a group. No member is fenced.

v2 is the first supported one; v6 leader epochs; v8 flexible; v10 topics by id.
"""

from __future__ import annotations

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.topics import Topic


def answer(call: Call) -> Message:
    """The result for each offset."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                asked.name, asked.topic_id, _commit_topic(call, topic, asked.partitions)
            )
            for asked, topic in (
                (asked, call.cluster.find(asked.name, asked.topic_id, by_id=call.version >= 10))
                for asked in call.request.topics
            )
        ]
    )


def _commit_topic(
    call: Call, topic: Topic | None, partitions: list[OffsetCommitRequestPartition]
) -> list[OffsetCommitResponsePartition]:
    return [
        OffsetCommitResponsePartition(one.partition_index, _commit(call, topic, one)) for one in partitions
    ]


def _commit(call: Call, topic: Topic | None, asked: OffsetCommitRequestPartition) -> int:
    wrong = call.coordinator_error(call.request.group_id)
    if wrong != ErrorCode.NONE:
        return wrong
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID if call.version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.partition(asked.partition_index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    groups = call.cluster.groups
    noted = groups.noted(asked.committed_offset, asked.committed_leader_epoch, asked.committed_metadata)
    groups.make(call.request.group_id).committed[topic.name, asked.partition_index] = noted
    return ErrorCode.NONE


HANDLER = Handler(8, 2, 10, answer)

"""ListOffsets: the beginning, the end, or the first record that is not older than a time.

v1 one offset for each partition; v2 isolation level; v4 leader epochs; v6 flexible; v7 adds -3, the record with the
highest time (KIP-734); v8, v9 and v11 add -4, -5 and -6 for tiered storage, which does not exist here: -4 is the
beginning, the others have no offset. -1 is the end, -2 the beginning.
"""

from __future__ import annotations

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.cluster import Cluster
from aioproducer.testing.broker.cluster.topics import wrong_epoch
from aioproducer.testing.broker.logs.log import PartitionLog
from aioproducer.testing.broker.rules import Subject

LATEST, EARLIEST, NEWEST_RECORD, EARLIEST_LOCAL = -1, -2, -3, -4
EARLIEST_PENDING_UPLOAD = -6
NOWHERE = (-1, -1)
READ_COMMITTED = 1


def subjects(request: ListOffsetsRequest, _cluster: Cluster) -> tuple[Subject, ...]:
    """Every partition of the request."""
    return tuple(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )


def answer(call: Call) -> Message:
    """One offset for each partition."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name, [_one_partition(call, topic.name, one) for one in topic.partitions]
            )
            for topic in call.request.topics
        ]
    )


def _one_partition(call: Call, name: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    injected = call.plan.error(name, asked.partition_index)
    if injected is not None:
        return ListOffsetsPartitionResponse(asked.partition_index, injected.code)
    topic = call.cluster.topics.get(name)
    partition = topic.partition(asked.partition_index) if topic is not None else None
    if partition is None:
        return ListOffsetsPartitionResponse(asked.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if partition.leader != call.node.id:
        return ListOffsetsPartitionResponse(asked.partition_index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    wrong = wrong_epoch(partition, asked.current_leader_epoch)
    if wrong or asked.timestamp < EARLIEST_PENDING_UPLOAD:
        return ListOffsetsPartitionResponse(asked.partition_index, wrong or ErrorCode.UNSUPPORTED_VERSION)
    committed = call.request.isolation_level == READ_COMMITTED
    offset, timestamp = find(partition.log, asked.timestamp, committed=committed)
    epoch = partition.leader_epoch if offset >= 0 and call.version >= 4 else -1
    return ListOffsetsPartitionResponse(asked.partition_index, ErrorCode.NONE, timestamp, offset, epoch)


def find(log: PartitionLog, wanted: int, *, committed: bool = False) -> tuple[int, int]:
    """The wanted offset and its time; -1 where there is none, and ends of the log have no time.

    For `committed` readers the log ends at the last stable offset.
    """
    end = log.stable_offset if committed else log.high_watermark
    if wanted == LATEST:
        return end, -1
    if wanted in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset, -1
    found = log.newest() if wanted == NEWEST_RECORD else log.find_by_time(wanted) if wanted >= 0 else None
    return found if found is not None and found[0] < end else NOWHERE


HANDLER = Handler(2, 1, 11, answer, subjects)

"""DescribeQuorum: the controller, with its clock (KIP-595). v1 (KIP-836) has the times of the replicas; v2 their directories.

The controller is the only voter. Its own time of the last fetch is its present time, as in Kafka.
"""

from __future__ import annotations

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.describe_quorum import (
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    ReplicaState,
)
from aioproducer.testing.broker.call import Call, Handler, Message


def answer(call: Call) -> Message:
    """The state of each partition of the quorum that was asked for."""
    injected = call.plan.error()
    if injected is not None:
        return DescribeQuorumResponse(injected.code, injected.message)
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopicData(
                topic.topic_name, [_partition(call, each.partition_index) for each in topic.partitions]
            )
            for topic in call.request.topics
        ]
    )


def _partition(call: Call, index: int) -> DescribeQuorumResponsePartitionData:
    leader, now = call.cluster.controller_id, call.cluster.wall_clock()
    own = ReplicaState(leader, last_fetch_timestamp=now, last_caught_up_timestamp=now)
    return DescribeQuorumResponsePartitionData(
        index, ErrorCode.NONE, None, leader, leader_epoch=1, current_voters=[own]
    )


HANDLER = Handler(55, 0, 2, answer)

"""TxnOffsetCommit: offsets of a group that become valid when the transaction commits.

v3 (KIP-447) adds the member and its generation, so that a reader without its partitions is refused; v4 adds
TRANSACTION_ABORTABLE for a group that was not added to the transaction; from v5 on (KIP-890) this request adds it. The
group's coordinator answers, and asks that of the transaction.
"""

from __future__ import annotations

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.cluster import Cluster
from aioproducer.testing.broker.cluster.groups import MAX_METADATA, offsets_partition
from aioproducer.testing.broker.cluster.transactions import Identity, TransactionRefusal
from aioproducer.testing.broker.cluster.verification import verify_write
from aioproducer.testing.broker.rules import Subject


def subjects(request: TxnOffsetCommitRequest, _cluster: Cluster) -> tuple[Subject, ...]:
    """Every partition of the request."""
    return tuple((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)


def answer(call: Call) -> Message:
    """The result for each offset."""
    request: TxnOffsetCommitRequest = call.request
    wanted = [(topic.name, one) for topic in request.topics for one in topic.partitions]
    single = [call.partition_error(name, one.partition_index) for name, one in wanted]
    error = _error(call, request) if ErrorCode.NONE in single else ErrorCode.NONE
    codes = iter([code or error or _note(call, *one) for code, one in zip(single, wanted, strict=True)])
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [
                    TxnOffsetCommitResponsePartition(one.partition_index, next(codes))
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _error(call: Call, request: TxnOffsetCommitRequest) -> int:
    """The error for all offsets: of the coordinator, the transaction, or the member."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    wrong = call.coordinator_error(request.group_id)
    if wrong != ErrorCode.NONE:
        return wrong
    try:
        _verify(call, request)
    except TransactionRefusal as refused:
        return refused.error
    if call.cluster.groups.get(request.group_id) is None and request.generation_id >= 0:
        return ErrorCode.ILLEGAL_GENERATION
    group = call.cluster.groups.make(request.group_id)
    return group.member_error(request.generation_id, request.member_id, request.group_instance_id)


def _verify(call: Call, request: TxnOffsetCommitRequest) -> None:
    who = Identity(request.producer_id, request.producer_epoch)
    group = call.cluster.groups.get(request.group_id)
    if group is not None and group.has_open(*who):
        return
    verify_write(
        call.cluster,
        request.transactional_id,
        who,
        offsets_partition(request.group_id),
        adds=call.version >= 5,
        knows_abortable=call.version >= 4,
    )


def _note(call: Call, name: str, asked: TxnOffsetCommitRequestPartition) -> int:
    if len(asked.committed_metadata or "") > MAX_METADATA:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    request: TxnOffsetCommitRequest = call.request
    groups = call.cluster.groups
    noted = groups.noted(asked.committed_offset, asked.committed_leader_epoch, asked.committed_metadata)
    place = (name, asked.partition_index)
    groups.make(request.group_id).note(request.producer_id, request.producer_epoch, place, noted)
    return ErrorCode.NONE


HANDLER = Handler(28, 0, 5, answer, subjects)

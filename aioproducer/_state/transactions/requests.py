"""The requests of a transaction that name many partitions, and the code that counts in their answers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from aioproducer._state.transactions.coordinator_verdicts import Answer, Request, judge
from aioproducer._state.transactions.parts import Place
from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from aioproducer._wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from aioproducer.records import GroupMetadata, OffsetAndMetadata, TopicPartition

# From the most severe answer to the least severe one.
_ORDER = (
    Answer.FATAL,
    Answer.SUPERSEDED,
    Answer.REFUSED,
    Answer.ABORTABLE,
    Answer.LOOK_UP,
    Answer.BUSY,
    Answer.REPLACED,
    Answer.RETRY,
)


def worst(request: Request, codes: Iterable[int]) -> int:
    """The code that decides, where several were given."""
    given = [code for code in codes if code]
    # That a partition was not attempted says only that another one has the reason.
    reasons = [code for code in given if code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    return min(reasons or given, key=lambda code: _ORDER.index(judge(request, code)), default=0)


def to_add_partitions(
    transactional_id: str, identity: tuple[int, int], places: Iterable[Place]
) -> AddPartitionsToTxnRequest:
    """Make these partitions a part of the transaction."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in places:
        by_topic[topic].append(partition)
    topics = [AddPartitionsToTxnTopic(topic, partitions) for topic, partitions in by_topic.items()]
    return AddPartitionsToTxnRequest((), transactional_id, *identity, topics)


def worst_of_partitions(answer: AddPartitionsToTxnResponse, places: Collection[Place]) -> int | None:
    """The code that counts; None if the answer has no error and leaves a partition out."""
    codes = {
        (topic.name, partition.partition_index): partition.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    }
    return _of_all(Request.ADD_PARTITIONS, [codes.get(place) for place in places])


def _of_all(request: Request, codes: Collection[int | None]) -> int | None:
    """The code that decides; None where some partition has no answer, and the others no error."""
    return worst(request, (code for code in codes if code)) or (None if None in codes else 0)


def to_commit_offsets(
    transactional_id: str,
    identity: tuple[int, int],
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> TxnOffsetCommitRequest:
    """Make these offsets a part of the transaction, with all facts that distinguish a member of the group from a zombie (KIP-447)."""
    by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = defaultdict(list)
    for place, offset in offsets.items():
        by_topic[place.topic].append(
            TxnOffsetCommitRequestPartition(
                place.partition, offset.offset, offset.leader_epoch, offset.metadata
            )
        )
    topics = [TxnOffsetCommitRequestTopic(topic, partitions) for topic, partitions in by_topic.items()]
    return TxnOffsetCommitRequest(
        transactional_id,
        group.group_id,
        *identity,
        group.generation,
        group.member_id,
        group.instance_id,
        topics,
    )


def taken_offsets(
    answer: TxnOffsetCommitResponse, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> tuple[int | None, list[TopicPartition]]:
    """The code that counts (None if the answer has no error and leaves a partition out), and the accepted offsets."""
    codes = {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
    }
    code = _of_all(Request.COMMIT_OFFSETS, [codes.get(place) for place in offsets])
    return code, [place for place in offsets if codes.get(place) == 0]


def pattern_of(prefix: str) -> str | None:
    """The regular expression of all ids that begin so, as brokers read them (RE2); None for no filter."""
    return rf"(?s){re.escape(prefix)}.*" if prefix else None

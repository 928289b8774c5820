"""Fetch: whole batches as stored in the log, now or as soon as there are enough.

v4 is the first supported one; v7 adds sessions (KIP-227), none of which is ever opened here: the answer's session id is
0, so that clients always send full requests; v9 leader epochs; v11 racks; v12 is flexible; v13 topics by id; v16 names
the leader (KIP-951). The first batch is returned whole even above every limit (KIP-74). Readers of committed records
get the batches before the last stable offset, and the list of aborted transactions in it (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
)
from aioproducer.testing.broker.call import Answer, Call, Handler, Later, Message
from aioproducer.testing.broker.cluster.cluster import Cluster
from aioproducer.testing.broker.cluster.topics import Partition, Topic, wrong_epoch
from aioproducer.testing.broker.logs.batches import read_header
from aioproducer.testing.broker.logs.log import PartitionLog
from aioproducer.testing.broker.logs.records import split_batches
from aioproducer.testing.broker.rules import Subject

READ_COMMITTED = 1


def subjects(request: FetchRequest, cluster: Cluster) -> tuple[Subject, ...]:
    """Every partition of the request."""
    return tuple(
        (topic.topic or _name_of(cluster, topic), partition.partition)
        for topic in request.topics
        for partition in topic.partitions
    )


def answer(call: Call) -> Answer:
    """The batches, at once if they are enough or there is an error, otherwise within the max_wait_ms of the request."""
    request: FetchRequest = call.request
    error = call.plan.error()
    if error is not None:
        return FetchResponse(error_code=error.code)
    if request.session_id != 0 and request.session_epoch > 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    if request.max_wait_ms <= 0 or _Reading(call).is_enough():
        return _Reading(call).response()
    return Later(
        ready=lambda: _Reading(call).is_enough(),
        deadline=_patience(call),
        finish=lambda: _Reading(call).response(),
    )


def _patience(call: Call) -> float:
    """The longest wait for more batches; a transaction may end by its time limit meanwhile."""
    deadline: float = call.cluster.clock() + call.request.max_wait_ms / 1000
    due = (
        call.cluster.transactions.next_deadline() if call.request.isolation_level == READ_COMMITTED else None
    )
    return deadline if due is None else min(deadline, due)


@attrs.define
class _Reading:
    """One reading of the logs."""

    call: Call
    committed: bool = attrs.field(init=False)
    room: int = attrs.field(init=False)
    given: int = attrs.field(default=0, init=False)
    failed: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.call.cluster.transactions.tick()
        self.committed = self.call.request.isolation_level == READ_COMMITTED
        self.room = self.call.request.max_bytes

    def is_enough(self) -> bool:
        """Whether the answer can be sent now; an error is sent at once."""
        list(self._topics())
        return self.failed or self.given >= self.call.request.min_bytes

    def response(self) -> Message:
        """The answer."""
        return FetchResponse(responses=list(self._topics()))

    def _topics(self) -> Iterator[FetchableTopicResponse]:
        for asked in self.call.request.topics:
            topic = self.call.cluster.find(asked.topic, asked.topic_id, by_id=self.call.version >= 13)
            parts = [self._partition(topic, one) for one in asked.partitions]
            yield FetchableTopicResponse(asked.topic, asked.topic_id, parts)

    def _partition(self, topic: Topic | None, asked: FetchPartition) -> PartitionData:
        partition = topic.partition(asked.partition) if topic is not None else None
        error = self._error(topic, partition, asked)
        if partition is None or error != ErrorCode.NONE:
            self.failed = True
            return _refusal(asked, partition, error)
        log = partition.log
        records = log.read(
            asked.fetch_offset,
            min(self.room, asked.partition_max_bytes),
            at_least_one=not self.given,
            before=log.stable_offset if self.committed else None,
        )
        self.given += len(records)
        self.room -= len(records)
        return PartitionData(
            asked.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=_aborted(log, asked.fetch_offset, records) if self.committed else None,
            records=records,
        )

    def _error(self, topic: Topic | None, partition: Partition | None, asked: FetchPartition) -> int:
        if topic is None:
            return (
                ErrorCode.UNKNOWN_TOPIC_ID
                if self.call.version >= 13
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        injected = self.call.plan.error(topic.name, asked.partition)
        if injected is not None:
            return injected.code
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.leader != self.call.node.id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        wrong = wrong_epoch(partition, asked.current_leader_epoch)
        if wrong:
            return wrong
        in_range = partition.log.start_offset <= asked.fetch_offset <= partition.log.end_offset
        return ErrorCode.NONE if in_range else ErrorCode.OFFSET_OUT_OF_RANGE


def _aborted(log: PartitionLog, start: int, records: bytes) -> list[AbortedTransaction]:
    """The aborted transactions that have records among these."""
    last = max((read_header(batch).last_offset for batch in split_batches(records)), default=start - 1)
    return [
        AbortedTransaction(one.producer_id, one.first_offset)
        for one in log.transactions.aborted(start, last + 1)
    ]


def _refusal(asked: FetchPartition, partition: Partition | None, error: int) -> PartitionData:
    response = PartitionData(
        asked.partition, error, high_watermark=-1, aborted_transactions=None, records=b""
    )
    if error not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH) or partition is None:
        return response
    return response._replace(current_leader=LeaderIdAndEpoch(partition.leader, partition.leader_epoch))


def _name_of(cluster: Cluster, asked: FetchTopic) -> str:
    topic = cluster.topics_by_id.get(asked.topic_id)
    return "" if topic is None else topic.name


HANDLER = Handler(1, 4, 18, answer, subjects)

"""Produce: one record batch for each partition, appended or refused separately.

v3 is the first supported one (record batches of magic 2); v7 allows zstd; v8 (KIP-467) names the faulty records; v9 is
flexible; v10 (KIP-951) names the leader and its address in the answer of a wrong broker; v13 has topics by id. acks=0
has no answer; an error closes the connection. The broker checks header and checksum, and the records only in compacted
topics and with the option `validate_records`. A transactional batch needs a transactional id, and a coordinator that
knows the partition: from v12 on (KIP-890) the write itself adds the partition to the transaction. Refusals without a
text in Kafka have their reason in the history.
"""

from __future__ import annotations

from collections.abc import Sequence

from aioproducer._codecs import CODEC_IDS
from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from aioproducer.testing.broker.call import Answer, Call, Handler, NoAnswer
from aioproducer.testing.broker.cluster.cluster import Cluster
from aioproducer.testing.broker.cluster.record_checks import check_records, check_timestamps
from aioproducer.testing.broker.cluster.topics import Partition, Topic
from aioproducer.testing.broker.cluster.transactions import Identity, TransactionRefusal
from aioproducer.testing.broker.cluster.verification import verify_write
from aioproducer.testing.broker.history import SeenBatch
from aioproducer.testing.broker.logs.batches import (
    TRANSACTIONAL,
    BatchHeader,
    RefusedRecords,
    check_batch,
    only_batch,
)
from aioproducer.testing.broker.logs.log import Appended, Stamp
from aioproducer.testing.broker.rules import GiveError, Subject

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
KNOWS_ABORTABLE, ADDS_PARTITIONS = 11, 12
"""The first versions that know TRANSACTION_ABORTABLE, and that add a partition to the transaction."""


def subjects(request: ProduceRequest, cluster: Cluster) -> tuple[Subject, ...]:
    """Every partition with records."""
    return tuple(
        (name, data.index)
        for topic, name in ((topic, _topic_name(cluster, topic)) for topic in request.topic_data)
        for data in topic.partition_data
    )


def answer(call: Call) -> Answer:
    """The outcome for each partition, in the order of the request."""
    request: ProduceRequest = call.request
    responses = [_one_topic(call, topic) for topic in request.topic_data]
    if request.acks == ACKS_NONE:
        return NoAnswer(hang_up=any(p.error_code for topic in responses for p in topic.partition_responses))
    return ProduceResponse(responses, node_endpoints=_node_endpoints(call, responses))


def _one_topic(call: Call, asked: TopicProduceData) -> TopicProduceResponse:
    topic = call.cluster.find(asked.name, asked.topic_id, by_id=call.version >= 13)
    partitions = [_one_partition(call, topic, asked, data) for data in asked.partition_data]
    return TopicProduceResponse(asked.name, asked.topic_id, partitions)


def _one_partition(
    call: Call, topic: Topic | None, asked: TopicProduceData, data: PartitionProduceData
) -> PartitionProduceResponse:
    name = _topic_name(call.cluster, asked)
    injected = call.plan.error(name, data.index)
    if injected is not None and not injected.append:
        return _injected(injected, data.index)
    partition = topic.partition(data.index) if topic is not None else None
    try:
        appended = _append(call, topic, partition, data.records or b"")
    except RefusedRecords as refused:
        call.seen.refusals.append(f"{name}-{data.index}: {refused.error.name}: {refused.reason}")
        return _refusal(call, partition, data.index, refused)
    if injected is not None:
        return _injected(injected, data.index)
    return PartitionProduceResponse(
        data.index,
        base_offset=appended.offset,
        log_append_time_ms=appended.log_append_time,
        log_start_offset=appended.log_start,
    )


def _append(call: Call, topic: Topic | None, partition: Partition | None, records: bytes) -> Appended:
    if topic is None or partition is None:
        by_id = topic is None and call.version >= 13
        code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise RefusedRecords(code, "It does not exist.")
    header, batch = only_batch(records)
    _note(call, topic, partition, header)
    _check_request(call, header)
    _check_leader(call, partition)
    _verify(call, topic, partition, header)
    _check_replicas(call, topic, partition)
    check_batch(header, batch, topic.max_message_bytes)
    wall = call.cluster.wall_clock()
    check_timestamps(topic, partition.index, header, batch, wall)
    check_records(topic, partition.index, batch, always=call.cluster.options.validate_records)
    append_time = wall if topic.log_append_time else None
    stamp = Stamp(partition.leader_epoch, call.cluster.clock(), append_time)
    appended = partition.log.produce(batch, header, stamp)
    call.cluster.changes.notify()
    return appended


def _check_request(call: Call, header: BatchHeader) -> None:
    request: ProduceRequest = call.request
    codec = CODEC_IDS.get(header.compression)
    if codec is not None and call.version < codec.produce_version:
        text = f"Produce takes {codec.name} from version {codec.produce_version} on."
        raise RefusedRecords(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
    if header.attributes & TRANSACTIONAL and request.transactional_id is None:
        raise RefusedRecords(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "Transactional records without a transactional id.",
        )
    if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
        raise RefusedRecords(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks} is none of -1, 0 and 1.")


def _check_leader(call: Call, partition: Partition) -> None:
    if partition.leader != call.node.id:
        raise RefusedRecords(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Broker {partition.leader} leads it.")


def _verify(call: Call, topic: Topic, partition: Partition, header: BatchHeader) -> None:
    """Ask the transaction's coordinator, unless the transaction already has records here."""
    who = Identity(header.producer_id, header.producer_epoch)
    if not header.attributes & TRANSACTIONAL or partition.log.transactions.is_open(*who):
        return
    adds = call.version >= ADDS_PARTITIONS
    partition.log.transactions.attempt(*who, header.base_sequence, from_zero=adds)
    try:
        verify_write(
            call.cluster,
            call.request.transactional_id,
            who,
            (topic.name, partition.index),
            adds=adds,
            knows_abortable=call.version >= KNOWS_ABORTABLE,
        )
    except TransactionRefusal as refused:
        text = f"The coordinator of the transaction of {who} said {refused.error.name}."
        raise RefusedRecords(_as_told(refused.error, adds=adds), text) from None


def _as_told(error: ErrorCode, *, adds: bool) -> ErrorCode:
    """The error in the form that producers retry: they expect no coordinator error here, and a wait only since v12."""
    unready = error in (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
    if unready or (error == ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error


def _check_replicas(call: Call, topic: Topic, partition: Partition) -> None:
    needed = min(topic.min_insync_replicas, len(partition.replicas))
    if call.request.acks == ACKS_ALL and len(partition.isr) < needed:
        raise RefusedRecords(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{len(partition.isr)} replicas are in sync, {needed} needed.",
            by_log=True,
        )


def _note(call: Call, topic: Topic, partition: Partition, header: BatchHeader) -> None:
    call.seen.batches.append(
        SeenBatch(
            topic.name,
            partition.index,
            header.size,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.record_count,
            header.crc,
            bool(header.attributes & TRANSACTIONAL),
        )
    )


def _injected(error: GiveError, index: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index,
        error.code,
        base_offset=-1,
        record_errors=[BatchIndexAndErrorMessage(*one) for one in error.record_errors],
        error_message=error.message,
    )


def _refusal(
    call: Call, partition: Partition | None, index: int, refused: RefusedRecords
) -> PartitionProduceResponse:
    response = PartitionProduceResponse(
        index,
        refused.error,
        base_offset=-1,
        log_start_offset=partition.log.start_offset if partition is not None and refused.by_log else -1,
        record_errors=[BatchIndexAndErrorMessage(*one) for one in refused.record_errors],
        error_message=refused.told,
    )
    if refused.error != ErrorCode.NOT_LEADER_OR_FOLLOWER or partition is None or call.version < 10:
        return response
    return response._replace(current_leader=LeaderIdAndEpoch(partition.leader, partition.leader_epoch))


def _node_endpoints(call: Call, responses: Sequence[TopicProduceResponse]) -> list[NodeEndpoint]:
    leaders = {p.current_leader.leader_id for topic in responses for p in topic.partition_responses}
    return [
        NodeEndpoint(node.id, node.host, node.port)
        for node in call.cluster.live_nodes()
        if node.id in leaders
    ]


def _topic_name(cluster: Cluster, asked: TopicProduceData) -> str:
    topic = None if asked.name else cluster.topics_by_id.get(asked.topic_id)
    return asked.name if topic is None else topic.name


HANDLER = Handler(0, 3, 13, answer, subjects)

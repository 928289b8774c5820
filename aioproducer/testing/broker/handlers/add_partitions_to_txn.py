"""AddPartitionsToTxn: a transaction will write to partitions; all of them or none are added.

v2 adds PRODUCER_FENCED, v3 is flexible and the last one for clients. Brokers use v4 and v5 among themselves: many
transactions at once, and verification of partitions (`verify_only`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.cluster import Cluster
from aioproducer.testing.broker.cluster.transactions import Identity, TopicPartition, TransactionRefusal
from aioproducer.testing.broker.rules import Subject

Errors = dict[TopicPartition, int]


def subjects(request: AddPartitionsToTxnRequest, _cluster: Cluster) -> tuple[Subject, ...]:
    """Every partition of the request."""
    asked = (request.v3_and_below_topics, *(one.topics for one in request.transactions))
    return tuple(partition for topics in asked for partition in _partitions(topics))


def answer(call: Call) -> Message:
    """The result for each partition."""
    request: AddPartitionsToTxnRequest = call.request
    if call.version >= 4:
        results = [
            AddPartitionsToTxnResult(one.transactional_id, _results(_errors(call, one)))
            for one in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    only = AddPartitionsToTxnTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(_errors(call, only)))


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> Iterable[TopicPartition]:
    return ((topic.name, index) for topic in topics for index in topic.partitions)


def _errors(call: Call, asked: AddPartitionsToTxnTransaction) -> Errors:
    partitions = tuple(_partitions(asked.topics))
    wrong = call.coordinator_error(asked.transactional_id)
    if wrong != ErrorCode.NONE:
        return dict.fromkeys(partitions, wrong)
    single = {partition: call.partition_error(*partition) for partition in partitions}
    if any(single.values()):
        return {partition: code or ErrorCode.OPERATION_NOT_ATTEMPTED for partition, code in single.items()}
    try:
        return _add_or_verify(call, asked, partitions)
    except TransactionRefusal as refused:
        return dict.fromkeys(partitions, refused.code(knows_fencing=call.version >= 2))


def _add_or_verify(
    call: Call, asked: AddPartitionsToTxnTransaction, partitions: tuple[TopicPartition, ...]
) -> Errors:
    transactions, who = call.cluster.transactions, Identity(asked.producer_id, asked.producer_epoch)
    if asked.verify_only:
        return {one: _verify(call, asked.transactional_id, who, one) for one in partitions}
    transactions.add_partitions(asked.transactional_id, who, partitions)
    return dict.fromkeys(partitions, ErrorCode.NONE)


def _verify(call: Call, transactional_id: str, who: Identity, partition: TopicPartition) -> int:
    try:
        call.cluster.transactions.verify(transactional_id, who, partition)
    except TransactionRefusal as refused:
        return refused.error
    return ErrorCode.NONE


def _results(errors: Errors) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (name, index), code in errors.items():
        topics.setdefault(name, []).append(AddPartitionsToTxnPartitionResult(index, code))
    return [AddPartitionsToTxnTopicResult(name, results) for name, results in topics.items()]


HANDLER = Handler(24, 0, 5, answer, subjects)

"""DescribeTransactions: the coordinator's state of some transactional ids."""

from __future__ import annotations

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.describe_transactions import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.transactions import Transaction


def answer(call: Call) -> Message:
    """One description for each id."""
    return DescribeTransactionsResponse(
        transaction_states=[
            _describe(call, transactional_id) for transactional_id in call.request.transactional_ids
        ]
    )


def _describe(call: Call, transactional_id: str) -> TransactionState:
    if not transactional_id:
        return TransactionState(ErrorCode.INVALID_REQUEST, transactional_id)
    wrong = call.coordinator_error(transactional_id)
    if wrong != ErrorCode.NONE:
        return TransactionState(wrong, transactional_id)
    known = call.cluster.transactions.get(transactional_id)
    if known is None:
        return TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    return TransactionState(
        ErrorCode.NONE,
        known.id,
        known.state.value,
        known.timeout_ms,
        known.started_ms,
        known.producer_id,
        known.epoch,
        _topics(known),
    )


def _topics(known: Transaction) -> list[TopicData]:
    topics: dict[str, list[int]] = {}
    for name, index in known.partitions:
        topics.setdefault(name, []).append(index)
    return [TopicData(name, indexes) for name, indexes in topics.items()]


HANDLER = Handler(65, 0, 0, answer)

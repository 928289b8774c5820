"""ListTransactions: the transactional ids that this broker coordinates.

v1 adds a filter by duration, v2 one by a regular expression that must match the whole id. Names of states that Kafka
does not know are returned, and match nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.transaction_states import State
from aioproducer.testing.broker.cluster.transactions import Transaction


def answer(call: Call) -> Message:
    """The ids that pass every filter."""
    request: ListTransactionsRequest = call.request
    injected = call.plan.error()
    if injected is not None:
        return ListTransactionsResponse(error_code=injected.code)
    names = {state.value for state in State}
    try:
        pattern = re.compile(request.transactional_id_pattern or ".*", re.DOTALL)
    except re.error:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in names],
        transaction_states=[
            TransactionState(known.id, known.producer_id, known.state.value)
            for known in _coordinated_here(call)
            if _passes(call, request, known) and pattern.fullmatch(known.id)
        ],
    )


def _coordinated_here(call: Call) -> Iterator[Transaction]:
    for known in call.cluster.transactions.all():
        if call.cluster.coordinator_error(known.id, call.node.id) == ErrorCode.NONE:
            yield known


def _passes(call: Call, request: ListTransactionsRequest, known: Transaction) -> bool:
    if request.producer_id_filters and known.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and known.state.value not in request.state_filters:
        return False
    age = call.cluster.wall_clock() - known.started_ms
    return request.duration_filter < 0 or age > request.duration_filter


HANDLER = Handler(66, 0, 2, answer)

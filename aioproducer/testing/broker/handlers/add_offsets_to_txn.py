"""AddOffsetsToTxn: a transaction will commit offsets of a group. v2 adds PRODUCER_FENCED, v3 is flexible."""

from __future__ import annotations

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.groups import offsets_partition
from aioproducer.testing.broker.cluster.transactions import Identity, TransactionRefusal


def answer(call: Call) -> Message:
    """Whether the group was added."""
    request: AddOffsetsToTxnRequest = call.request
    wrong = call.coordinator_error(request.transactional_id)
    if wrong != ErrorCode.NONE:
        return AddOffsetsToTxnResponse(error_code=wrong)
    who = Identity(request.producer_id, request.producer_epoch)
    try:
        call.cluster.transactions.add_partitions(
            request.transactional_id, who, [offsets_partition(request.group_id)]
        )
    except TransactionRefusal as refused:
        return AddOffsetsToTxnResponse(error_code=refused.code(knows_fencing=call.version >= 2))
    return AddOffsetsToTxnResponse()


HANDLER = Handler(25, 0, 4, answer)

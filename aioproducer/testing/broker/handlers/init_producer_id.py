"""InitProducerId: a new producer id, or a new epoch for one that the producer has.

v0-1 plain, v2 flexible, v3 (KIP-360) adds the producer's present id and epoch, v4 adds PRODUCER_FENCED, v5 the errors
of KIP-890. Without a transactional id the broker stores nothing: Kafka always returns a new id with epoch 0, for any
given id and epoch (`TransactionCoordinator.handleInitProducerId`). With one, the coordinator answers; it first aborts
an open transaction and lets the producer ask again (CONCURRENT_TRANSACTIONS).
"""

from __future__ import annotations

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.transactions import NO_ID, Identity, TransactionRefusal


def answer(call: Call) -> Message:
    """A new producer id, or the next epoch of the producer."""
    request: InitProducerIdRequest = call.request
    error = call.plan.error()
    if error is not None:
        return _refusal(error.code)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refusal(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=call.cluster.new_producer_id(), producer_epoch=0)
    try:
        identity = _of_transaction(call, request, request.transactional_id)
    except TransactionRefusal as refused:
        return _refusal(refused.code(knows_fencing=call.version >= 4))
    return InitProducerIdResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)


def _of_transaction(call: Call, request: InitProducerIdRequest, transactional_id: str) -> Identity:
    wrong = call.cluster.coordinator_error(transactional_id, call.node.id)
    if transactional_id and wrong != ErrorCode.NONE:
        raise TransactionRefusal(wrong)
    has = Identity(request.producer_id, request.producer_epoch)
    return call.cluster.transactions.init(
        transactional_id,
        request.transaction_timeout_ms,
        None if has.producer_id == NO_ID else has,
        call.marker_wait(),
    )


def _refusal(code: int) -> Message:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)


HANDLER = Handler(22, 0, 5, answer)

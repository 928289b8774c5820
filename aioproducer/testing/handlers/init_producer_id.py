"""InitProducerId: a new producer id, or a new epoch for one that the producer has.

v0-1 plain, v2 flexible, v3 (KIP-360) brings the id and epoch that the producer has, v4 adds PRODUCER_FENCED, v5 the
errors of KIP-890. Without a transactional id the broker keeps nothing: Kafka always gives a new id with epoch 0,
whatever id and epoch came (`TransactionCoordinator.handleInitProducerId`).
"""

from __future__ import annotations

from aioproducer._wire.messages.init_producer_id import InitProducerIdResponse
from aioproducer.testing.call import Call, Handler, Message
from aioproducer.testing.codes import Code


def answer(call: Call) -> Message:
    """A producer id of its own for each asker."""
    error = call.plan.error()
    if error is not None:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
    if (call.request.producer_id == -1) != (call.request.producer_epoch == -1):
        return InitProducerIdResponse(error_code=Code.INVALID_REQUEST, producer_epoch=-1)
    if call.request.transactional_id is not None:
        # The seam for transactions: a producer that wants them is told at once, not left to retry.
        return InitProducerIdResponse(error_code=Code.INVALID_REQUEST, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=call.cluster.new_producer_id(), producer_epoch=0)


HANDLER = Handler(22, 0, 5, answer)

"""EndTxn: commit or abort.

v2 adds PRODUCER_FENCED, v3 is flexible, v4 adds TRANSACTION_ABORTABLE. v5 (KIP-890) raises the epoch with each end and
returns the producer's next id and epoch. A fault with `append=True` ends the transaction and still answers with its
error.
"""

from __future__ import annotations

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.transactions import Identity, TransactionRefusal


def answer(call: Call) -> Message:
    """The result of the transaction."""
    request: EndTxnRequest = call.request
    call.seen.commits = request.committed
    injected = call.plan.error()
    wrong = call.coordinator_error(request.transactional_id)
    if wrong != ErrorCode.NONE and (injected is None or not injected.append):
        return EndTxnResponse(error_code=wrong)
    try:
        identity = _end(call, request)
    except TransactionRefusal as refused:
        return EndTxnResponse(error_code=refused.code(knows_fencing=call.version >= 2))
    if injected is not None:
        return EndTxnResponse(error_code=injected.code)
    return EndTxnResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)


def _end(call: Call, request: EndTxnRequest) -> Identity:
    return call.cluster.transactions.end(
        request.transactional_id,
        Identity(request.producer_id, request.producer_epoch),
        commit=request.committed,
        bump=call.version >= 5,
        wait=call.marker_wait(),
    )


HANDLER = Handler(26, 0, 5, answer)

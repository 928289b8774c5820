"""The consequences of the final answer to a request that a transaction depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.transactions.coordinator_verdicts import Answer, Request
from aioproducer._state.transactions.dialogues.standing import not_taken_over, renewed_after_abort
from aioproducer._state.transactions.replies import abortable_error, error_of
from aioproducer._state.transactions.table import State

if TYPE_CHECKING:
    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer._state.transactions.dialogues.steps import Dialogue
    from aioproducer._state.transactions.replies import Reply


def require(current: CurrentTransaction, reply: Reply) -> Dialogue[None]:
    """Raise the error of an answer that is not a success. It aborts the transaction, or ends the producer."""
    if reply.answer is Answer.DONE:
        return
    is_aborting = current.table.state is State.ABORTING
    if reply.answer is Answer.ABORTABLE and not is_aborting:
        yield from current.failed(abortable_error(reply))
    else:
        last = reply
        if reply.answer is Answer.SUPERSEDED:
            renewed = yield from renewed_after_abort(current, may_be_over=_may_be_over(reply))
            last = renewed or reply
        if last is reply and _is_of_a_leader(reply) and current.parts.is_newest:
            # The next transaction has another epoch, as the coordinator of the group may refuse this one again.
            current.parts.failed = True
            yield from current.failed(not_taken_over(error_of(reply)))
        elif last.answer is not Answer.DONE:
            error = current.fatal_error(last)
            yield from current.ends_with(error)
            raise error
    if current.table.state is not State.ABORTING:
        raise current.table.aborted(f"{reply.request.value} is not possible")


def _is_of_a_leader(reply: Reply) -> bool:
    """Whether the coordinator of the id was not asked: that of a group refuses as the leader of a partition does."""
    return reply.request is Request.COMMIT_OFFSETS and reply.answer is Answer.SUPERSEDED


def _may_be_over(reply: Reply) -> bool:
    """Whether an attempt to get the next epoch may have ended the transaction that is refused now."""
    return reply.request is Request.INIT_PRODUCER_ID and reply.lost > 0

"""The dialogue that ends the transaction of a handle, in any process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.identity.standing import ABORTED, ENDED
from aioproducer._state.transactions.coordinator_verdicts import Answer, Request
from aioproducer._state.transactions.dialogues.standing import standing_of_id
from aioproducer._state.transactions.dialogues.steps import Ask, EndTransaction
from aioproducer._state.transactions.replies import error_of, fatal_error
from aioproducer.errors import ProducerFencedError, TransactionAbortedError, TransactionError

if TYPE_CHECKING:
    from aioproducer._state.identity.standing import Identity, Standing
    from aioproducer._state.transactions.dialogues.steps import Attempt, Dialogue, IdentityAnswer
    from aioproducer._state.transactions.replies import Reply


def end_handle(identity: Identity, level: int, *, committed: bool) -> Dialogue[None]:
    """Commit or abort the transaction that this identity has open, or raise the reason of the refusal."""

    def attempt() -> Attempt:
        answer: IdentityAnswer = yield EndTransaction(identity, committed)
        return answer.code

    reply: Reply = yield Ask(Request.COMMIT if committed else Request.ABORT, attempt)
    if reply.answer is Answer.DONE:
        return
    standing = (yield from standing_of_id())[0] if reply.answer is Answer.SUPERSEDED else None
    if standing is not None and _shows_its_end(standing, identity, level):
        if standing.state in ABORTED and not committed:
            return
        if standing.state in ABORTED:
            raise TransactionAbortedError(
                "the transaction was aborted before this commit: it exceeded transaction_timeout_ms, or its "
                "handle was aborted",
                retriable=False,
            )
        if not committed:
            raise TransactionError("the transaction was committed before this abort", cause=error_of(reply))
    error = fatal_error(reply)
    if isinstance(error, ProducerFencedError):
        text = f"another producer took over {reply.name!r}, and the transaction of this handle was aborted"
        raise ProducerFencedError(text, outcome=error.outcome, cause=error.cause)
    raise error


def _shows_its_end(standing: Standing, identity: Identity, level: int) -> bool:
    """Whether this is the end of the handle's transaction. On level 1 only the time limit raises the epoch."""
    is_unchanged = level == 1 and (standing.producer_id, standing.epoch) == identity
    return standing.follows(identity, ENDED) or (is_unchanged and standing.state in ENDED)

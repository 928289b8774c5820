"""The dialogue that ends the transaction of a handle, in any process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.identity.standing import ABORTED, ENDED
from aioproducer._state.transactions.coordinator_verdicts import FORGOTTEN, Answer, Request
from aioproducer._state.transactions.dialogues.standing import standing_of_id
from aioproducer._state.transactions.dialogues.steps import Ask, EndTransaction
from aioproducer._state.transactions.replies import error_of, fatal_error
from aioproducer.errors import ProducerFencedError, TransactionAbortedError, TransactionError
from aioproducer.outcome import Outcome

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
    if standing is not None and _shows_its_end(standing, identity, level, is_certain=not reply.undecided):
        if standing.state in ABORTED and not committed:
            return
        if standing.state in ABORTED:
            raise TransactionAbortedError(
                "the transaction was aborted before this commit: it exceeded transaction_timeout_ms, or its "
                "handle was aborted",
                retriable=False,
                # Another epoch may be that of a successor of level 1, which came after a commit without an answer.
                outcome=Outcome.NOT_WRITTEN
                if standing.epoch == identity[1] + (level > 1)
                else Outcome.UNKNOWN,
            )
        if not committed:
            raise TransactionError("the transaction was committed before this abort", cause=error_of(reply))
    if reply.code in FORGOTTEN:
        # The coordinator has forgotten the transaction as well, which an earlier call may have ended.
        reply = reply._replace(undecided=reply.undecided + 1)
    error = fatal_error(reply)
    if isinstance(error, ProducerFencedError):
        # An earlier call may have ended it: its answer may be lost, and nothing shows its end any more.
        text = (
            f"another producer took over {reply.name!r}: the transaction of this handle was aborted, unless an earlier "
            "commit of it was executed"
        )
        raise ProducerFencedError(text, outcome=Outcome.UNKNOWN, cause=error.cause)
    raise error


def _shows_its_end(standing: Standing, identity: Identity, level: int, *, is_certain: bool) -> bool:
    """Whether this is the end of the handle's transaction.

    On level 1 only the time limit raises the epoch, so a commit under the next epoch is that of a successor. An abort under it is
    the transaction's own if `is_certain`: no attempt of this call may have ended it.
    """
    if level > 1:
        return standing.follows(identity, ENDED) or standing.shows_double_abort(identity)
    is_unchanged = standing.is_of(identity) and standing.state in ENDED
    return is_unchanged or (is_certain and standing.follows(identity, ABORTED))

"""The dialogues that commit, abort or detach a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.transactions.coordinator_verdicts import Answer, Request
from aioproducer._state.transactions.dialogues.adding import deliver_offsets
from aioproducer._state.transactions.dialogues.end_attempts import attempt_to_end
from aioproducer._state.transactions.dialogues.renewal import renew
from aioproducer._state.transactions.dialogues.requirement import require
from aioproducer._state.transactions.dialogues.steps import (
    Ask,
    AwaitRecords,
    AwaitTurn,
    ConfirmCommit,
    EndRecords,
    InTurn,
    SendAllNow,
    StopAdding,
)
from aioproducer._state.transactions.replies import error_of
from aioproducer._state.transactions.table import Event, State
from aioproducer.errors import CommitOutcomeUnknownError, ProtocolError, TransactionError
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer._state.transactions.dialogues.steps import Attempt, Dialogue
    from aioproducer._state.transactions.replies import Reply


def commit(current: CurrentTransaction) -> Dialogue[None]:
    """Commit the transaction when all its records and offsets have their outcome."""
    yield from gather(current)
    if not current.parts.is_empty:
        yield InTurn(_end(current, committed=True))


def gather(current: CurrentTransaction) -> Dialogue[None]:
    """Wait until all records have their outcome, and all offsets are sent."""
    yield SendAllNow()
    yield from deliver_offsets(current)
    yield AwaitRecords()
    # No record waits for a partition any more. One that is added after the end would open the next transaction.
    current.parts.wanted.clear()
    # What another call is sending now is not a part of the transaction yet, and a handle may be used as soon as it is given out.
    yield AwaitTurn()


def abort(current: CurrentTransaction) -> Dialogue[None]:
    """Drop the records that are not in flight, wait for the others, and abort the transaction."""
    yield StopAdding()
    yield EndRecords(current.give_up("the transaction was aborted before the record was sent"))
    yield AwaitRecords()
    yield InTurn(_end_aborted(current))


def _end_aborted(current: CurrentTransaction) -> Dialogue[None]:
    if not current.has_more_to_end:
        # No request was made, or an earlier call has found that the coordinator aborted the transaction by itself.
        return
    if current.parts.level == 1 and not current.parts.is_clean:
        # A request in flight may arrive after any EndTxn; only a new epoch keeps it out of the next transaction.
        reply = yield from renew(current, current.identity)
        yield from require(current, reply)
        current.parts.ended = True
    else:
        yield from _end(current, committed=False)


def _end(current: CurrentTransaction, *, committed: bool) -> Dialogue[None]:
    parts = current.parts

    def attempt() -> Attempt:
        parts.asked_to_commit = committed
        return (yield from attempt_to_end(current, current.identity, committed=committed))

    reply: Reply = yield Ask(Request.COMMIT if committed else Request.ABORT, attempt)
    if parts.end_in_doubt and not reply.undecided:
        # An attempt of an earlier call may have been executed.
        reply = reply._replace(undecided=1)
    if reply.answer is Answer.ABORTABLE and not committed:
        # The broker has forgotten this producer: a new epoch ends the transaction as well.
        reply = yield from renew(current, current.identity)
    # A commit that may have been executed is not reported as aborted, whatever the answer to a later attempt is.
    may_be_committed = committed and reply.undecided > 0
    if reply.answer is Answer.UNDECIDED or (reply.answer is Answer.ABORTABLE and may_be_committed):
        raise _in_doubt(current, reply, committed=committed)
    yield from require(current, reply)
    parts.ended = True
    if parts.level == 1 and (reply.lost or parts.has_lost_attempts):
        # An EndTxn without an answer may arrive late, and would end the next transaction of the same epoch; any other request would
        # open it.
        try:
            renewed = yield from renew(current, current.identity)
        except ProtocolError:
            # The coordinator lacks the request for an epoch. That ends the producer, but it does not undo the commit.
            if committed:
                yield ConfirmCommit()
            raise
        if committed and renewed.answer is not Answer.DONE:
            # A caller that has left learns the error only: no error says that the transaction is not committed.
            error = current.fatal_error(renewed._replace(undecided=renewed.undecided + 1))
            yield ConfirmCommit()
            yield from current.ends_with(error)
            raise error
        yield from require(current, renewed)


def _in_doubt(current: CurrentTransaction, reply: Reply, *, committed: bool) -> TransactionError:
    """The answer does not say whether the transaction was ended. The producer goes on, and the call may be repeated."""
    if not committed:
        text = "the coordinator did not report whether it aborted the transaction: await abort_transaction() again"
        return TransactionError(text, cause=error_of(reply), outcome=Outcome.UNKNOWN)
    if current.table.state is State.COMMITTING:
        current.table.move(Event.LEFT_ALONE)
    text = "the coordinator did not report whether it committed the transaction"
    return CommitOutcomeUnknownError(text, cause=error_of(reply))


def end_at_closing(current: CurrentTransaction, *, is_asked: bool) -> Event | None:
    """The call that ends an open transaction when the producer closes. `is_asked`: a call for its end is under way."""
    state = current.table.state
    if not is_asked and state is State.UNCERTAIN:
        return Event.COMMIT
    may_abort = state in (State.IN_TRANSACTION, State.ABORTABLE, State.DETACHING)
    return Event.ABORT if may_abort or (not is_asked and state is State.ABORTING) else None

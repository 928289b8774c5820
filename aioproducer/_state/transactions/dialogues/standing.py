"""The dialogue that asks for the state of a transactional id, and what it says about this producer's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.identity.standing import ABORTED
from aioproducer._state.transactions.coordinator_verdicts import Answer, Request
from aioproducer._state.transactions.dialogues.renewal import renew
from aioproducer._state.transactions.dialogues.steps import Ask, Describe
from aioproducer.errors import TransactionError

if TYPE_CHECKING:
    from aioproducer._state.identity.standing import Standing
    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer._state.transactions.dialogues.steps import Attempt, Dialogue
    from aioproducer._state.transactions.replies import Reply


def standing_of_id() -> Dialogue[tuple[Standing | None, float]]:
    """The state of the id, and the time of the answer. None if the brokers cannot answer (before Kafka 3.0), or refuse to."""
    found: list[Standing] = []

    def attempt() -> Attempt:
        code, standing = yield Describe()
        found[:] = [standing]
        return code  # type: ignore[no-any-return]  # yield gives Any

    reply: Reply = yield Ask(Request.DESCRIBE, attempt)
    return (found[0] if reply.answer is Answer.DONE else None), reply.at


def aborted_by_coordinator(current: CurrentTransaction) -> Dialogue[TransactionError | None]:
    """The error of a transaction that the coordinator aborted by itself; None if it did not, or may not have."""
    if not current.parts.was_opened:
        return None
    standing, now = yield from standing_of_id()
    if standing is None or not standing.follows(current.identity, ABORTED):
        return None
    return _abort_of(current, now)


def renewed_after_abort(current: CurrentTransaction, *, may_be_over: bool = False) -> Dialogue[Reply | None]:
    """The reply to the request for the next epoch; None if the coordinator did not abort the transaction by itself.

    `may_be_over`: an earlier attempt of the present call may have ended the transaction.
    """
    if may_be_over and current.parts.level == 1:
        # On level 1 its end leaves no trace, so the aborted transaction may be that of another producer.
        return None
    identity = current.identity
    error = yield from aborted_by_coordinator(current)
    if error is None:
        return None
    reply = yield from renew(current, identity)
    if reply.answer is Answer.DONE:
        current.parts.ended = True
        yield from current.failed(_abort_of(current, reply.at))
    return reply


def _abort_of(current: CurrentTransaction, now: float) -> TransactionError:
    why = (
        f"it exceeded its time limit of {current.time_limit:g} s (transaction_timeout_ms)"
        if now - current.began_at >= current.time_limit
        else "another client requested it"
    )
    return TransactionError(f"the coordinator aborted the transaction: {why}", retriable=True)

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
    from aioproducer.errors import KafkaError


def standing_of_id() -> Dialogue[tuple[Standing | None, float]]:
    """The state of the id, and the time of the answer. None if the brokers cannot answer (before Kafka 3.0), or refuse to."""
    found: list[Standing] = []

    def attempt() -> Attempt:
        code, standing = yield Describe()
        found[:] = [standing]
        return code  # type: ignore[no-any-return]  # yield gives Any

    reply: Reply = yield Ask(Request.DESCRIBE, attempt)
    return (found[0] if reply.answer is Answer.DONE else None), reply.at


def aborted_by_coordinator(
    current: CurrentTransaction, *, may_be_over: bool = False
) -> Dialogue[TransactionError | None]:
    """The error of a transaction that the coordinator aborted by itself; None if it did not, or may not have.

    `may_be_over`: the transaction may have ended before, which leaves no trace: the aborted one may be that of a successor.
    """
    parts = current.parts
    parts.is_newest = False
    if not parts.may_have_been_open:
        return None
    standing, now = yield from standing_of_id()
    parts.is_newest = standing is not None and standing.is_of(current.identity)
    is_aborted = standing is not None and _shows_abort(current, standing)
    is_certain = is_aborted and parts.is_still_open and not may_be_over
    fits_both = standing is None or is_aborted or standing.shows_double_abort(current.identity)
    parts.is_unclear = fits_both and not is_certain
    return _abort_of(current, now) if is_certain else None


def _shows_abort(current: CurrentTransaction, standing: Standing) -> bool:
    parts, identity = current.parts, current.identity
    # After a commit without an answer, a successor that uses level 1 leaves the state of a double abort.
    is_double = not parts.may_be_committed and parts.shows_double_abort(standing, identity)
    return is_double or standing.follows(identity, ABORTED)


def renewed_after_abort(current: CurrentTransaction, *, may_be_over: bool = False) -> Dialogue[Reply | None]:
    """The reply to the request for the next epoch; None if the coordinator did not abort the transaction by itself.

    `may_be_over`: an earlier attempt of the present call may have ended the transaction.
    """
    identity = current.identity
    # On level 2 its end raises the epoch.
    may_be_over = may_be_over and current.parts.level == 1
    error = yield from aborted_by_coordinator(current, may_be_over=may_be_over)
    if error is None:
        return None
    reply = yield from renew(current, identity)
    if reply.answer is Answer.DONE:
        current.parts.ended = True
        yield from current.failed(_abort_of(current, reply.at))
    return reply


def not_taken_over(refusal: KafkaError | None) -> TransactionError:
    """The error of a leader's refusal where the coordinator names this producer as the newest.

    For example, a leader that was elected between two steps of its check may not know what it has checked.
    """
    text = "a leader refused the transaction, although no other producer has taken over its id"
    return TransactionError(text, cause=refusal, retriable=True)


def _abort_of(current: CurrentTransaction, now: float) -> TransactionError:
    why = (
        f"it exceeded its time limit of {current.time_limit:g} s (transaction_timeout_ms)"
        if now - current.began_at >= current.time_limit
        else "another client requested it"
    )
    return TransactionError(f"the coordinator aborted the transaction: {why}", retriable=True)

"""One attempt to end a transaction, and the reason why the coordinator refuses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.identity.standing import ABORTED
from aioproducer._state.transactions.coordinator_verdicts import (
    REFUSES_TO_END,
    Request,
    answers_later,
    may_be_done,
)
from aioproducer._state.transactions.dialogues.steps import Describe, EndTransaction, ReadClock
from aioproducer._wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from aioproducer._state.identity.standing import Identity
    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer._state.transactions.dialogues.steps import Attempt, IdentityAnswer


def attempt_to_end(current: CurrentTransaction, identity: Identity, *, committed: bool) -> Attempt:
    """Ask for the end of the open transaction. On level 2 the answer has the next identity."""
    parts = current.parts
    if parts.level == 1 and (refusal := (yield from _refusal_behind_its_limit(current, identity))):
        return refusal
    # True until the answer is there: it may never come.
    before, parts.end_in_doubt = parts.end_in_doubt, True
    answer: IdentityAnswer = yield EndTransaction(identity, committed)
    request = Request.COMMIT if committed else Request.ABORT
    # A success counts until `ended` is set: the producer may end in between, by an interrupt or for want of memory.
    parts.end_in_doubt = before or not answer.code or may_be_done(request, answer.code)
    if parts.level == 1:
        return answer.code
    if not answer.code:
        current.ownership.obtained(answer.identity)
        current.marker_delay.ended(answer.at)
    elif answer.code in REFUSES_TO_END:
        return (yield from _refused(identity, answer.code))
    return answer.code


def _refusal_behind_its_limit(current: CurrentTransaction, identity: Identity) -> Attempt:
    """The code of a transaction that is not ended by a request: its state is asked before the first one that may end it.

    Later its state may be that of a successor as well. So no request is sent while the coordinator will give the state later.
    """
    if not current.parts.is_still_open or (yield ReadClock()) - current.began_at < current.time_limit:
        return ErrorCode.NONE
    code, standing = yield Describe()
    if answers_later(code):
        return ErrorCode.NOT_COORDINATOR
    is_aborted = not code and standing.follows(identity, ABORTED)
    return ErrorCode.PRODUCER_FENCED if is_aborted else ErrorCode.NONE


def _refused(identity: Identity, code: int) -> Attempt:
    """The request is refused also while the markers of the former transaction are written: then it is repeated."""
    looked, standing = yield Describe()
    # A coordinator that has moved, or is loading, cannot answer: that says nothing against this identity.
    passes = answers_later(looked) if looked else standing.passes(code, identity)
    return ErrorCode.CONCURRENT_TRANSACTIONS if passes else code

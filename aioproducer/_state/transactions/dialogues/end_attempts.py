"""One attempt to end a transaction, and the reason why the coordinator refuses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    from collections.abc import Generator

    from aioproducer._state.identity.standing import Identity
    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer._state.transactions.dialogues.steps import Attempt, IdentityAnswer, Question


def attempt_to_end(current: CurrentTransaction, identity: Identity, *, committed: bool) -> Attempt:
    """Ask for the end of the open transaction. On level 2 the answer has the next identity."""
    parts = current.parts
    if parts.level == 1 and (yield from _was_aborted_at_its_limit(current, identity)):
        return ErrorCode.PRODUCER_FENCED
    # True until the answer is there: it may never come.
    before, parts.end_in_doubt = parts.end_in_doubt, True
    answer: IdentityAnswer = yield EndTransaction(identity, committed)
    parts.end_in_doubt = before or may_be_done(Request.COMMIT if committed else Request.ABORT, answer.code)
    if parts.level == 1:
        return answer.code
    if not answer.code:
        current.ownership.obtained(answer.identity)
        current.marker_delay.ended(answer.at)
    elif answer.code in REFUSES_TO_END:
        return (yield from _refused(identity, answer.code))
    return answer.code


def _was_aborted_at_its_limit(
    current: CurrentTransaction, identity: Identity
) -> Generator[Question, Any, bool]:
    """Whether the coordinator has ended the transaction already: asked before the first request that may end it.

    Later its state may be that of a successor as well.
    """
    if not current.parts.is_still_open or (yield ReadClock()) - current.began_at < current.time_limit:
        return False
    code, standing = yield Describe()
    return not code and standing.follows(identity, ABORTED)


def _refused(identity: Identity, code: int) -> Attempt:
    """The request is refused also while the markers of the former transaction are written: then it is repeated."""
    looked, standing = yield Describe()
    # A coordinator that has moved, or is loading, cannot answer: that says nothing against this identity.
    passes = answers_later(looked) if looked else standing.passes(code, identity)
    return ErrorCode.CONCURRENT_TRANSACTIONS if passes else code

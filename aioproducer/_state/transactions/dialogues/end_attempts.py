"""One attempt to end a transaction, and the reason why the coordinator refuses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.transactions.coordinator_verdicts import REFUSES_TO_END, answers_later
from aioproducer._state.transactions.dialogues.steps import Describe, EndTransaction
from aioproducer._wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from aioproducer._state.identity.standing import Identity
    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer._state.transactions.dialogues.steps import Attempt, IdentityAnswer


def attempt_to_end(current: CurrentTransaction, identity: Identity, *, committed: bool) -> Attempt:
    """Ask for the end of the open transaction. On level 2 the answer has the next identity."""
    answer: IdentityAnswer = yield EndTransaction(identity, committed)
    if current.parts.level == 1:
        return answer.code
    if not answer.code:
        current.ownership.obtained(answer.identity)
        current.marker_delay.ended(answer.at)
    elif answer.code in REFUSES_TO_END:
        return (yield from _refused(identity, answer.code))
    return answer.code


def _refused(identity: Identity, code: int) -> Attempt:
    """The request is refused also while the markers of the former transaction are written: then it is repeated."""
    looked, standing = yield Describe()
    # A coordinator that has moved, or is loading, cannot answer: that says nothing against this identity.
    passes = answers_later(looked) if looked else standing.passes(code, identity)
    return ErrorCode.CONCURRENT_TRANSACTIONS if passes else code

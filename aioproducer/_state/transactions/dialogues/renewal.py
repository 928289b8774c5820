"""The next identity of a transactional producer, without harm to a producer that may have taken over.

Kafka ends the open transaction of a producer id at each InitProducerId request for its next epoch, also if the requester's
epoch is outdated and the request is then refused. EndTxn is executed for the current epoch only, and on level 2 its answer has
the next epoch. A producer that knows its identity gets the next epoch from EndTxn where the broker supports it. Elsewhere it
checks that it still owns the id before it asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.identity.standing import (
    ABORTED,
    COMMITTED,
    LAST_EPOCH,
    NOBODY,
    ONGOING,
    PREPARING,
    Move,
    following,
    next_move,
)
from aioproducer._state.transactions.coordinator_verdicts import FENCING, Answer, Request, answers_later
from aioproducer._state.transactions.dialogues.end_attempts import attempt_to_end
from aioproducer._state.transactions.dialogues.steps import AskForEpoch, Describe, RequestIdentity
from aioproducer._wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from aioproducer._state.identity.standing import Identity, Standing
    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer._state.transactions.dialogues.steps import Attempt, Dialogue, IdentityAnswer
    from aioproducer._state.transactions.replies import Reply

LEVEL_OF_EPOCHS = 2
# The refusals of an abort whose transaction was ended under an epoch that the producer does not know.
ENDED_BEFORE = FENCING | {ErrorCode.INVALID_TXN_STATE}


def take_over(current: CurrentTransaction) -> Dialogue[Reply]:
    """Get the id from any other producer: its open transaction is ended, and it is fenced."""
    reply: Reply = yield AskForEpoch(Request.INIT_PRODUCER_ID, lambda: _request(current, NOBODY))
    return reply


def renew(current: CurrentTransaction, identity: Identity) -> Dialogue[Reply]:
    """Get the next epoch, which ends the open transaction, but not that of a producer that has taken over."""
    may_be_ended = False
    if current.parts.level >= LEVEL_OF_EPOCHS:
        reply = yield from _renew_by_ending(current, identity)
        # A commit without an answer may have given another producer id.
        is_doubtful = identity[1] >= LAST_EPOCH and reply.code == ErrorCode.INVALID_TXN_STATE
        if reply.answer in (Answer.DONE, Answer.SUPERSEDED) and not is_doubtful:
            return reply
        # The coordinator has forgotten this producer, or refuses each end of it.
        may_be_ended = reply.undecided > 0
    return (yield from _renew_by_asking(current, identity, may_be_ended=may_be_ended))


def _renew_by_ending(current: CurrentTransaction, identity: Identity) -> Dialogue[Reply]:
    """On level 2 the answer to EndTxn has the next epoch; another producer's request is refused."""
    known = identity

    def attempt() -> Attempt:
        nonlocal known
        code = yield from attempt_to_end(current, known, committed=False)
        if code not in ENDED_BEFORE or known != identity or not current.parts.is_still_open:
            return code
        looked, standing = yield Describe()
        if answers_later(looked):
            return looked  # type: ignore[no-any-return]  # yield gives Any
        ended_as = _ended_as(current, identity, code, standing)
        if ended_as is None:
            return code
        if standing.state not in PREPARING:
            known = ended_as
        return ErrorCode.CONCURRENT_TRANSACTIONS

    reply: Reply = yield AskForEpoch(Request.ABORT, attempt)
    return reply


def _ended_as(
    current: CurrentTransaction, identity: Identity, code: int, standing: Standing
) -> Identity | None:
    """The epoch under which the transaction ended before it was aborted; None where another producer may have it."""
    if code == ErrorCode.INVALID_TXN_STATE:
        # A commit without an answer came first: it ended the transaction under the epoch that its answer had.
        return following(identity) if standing.follows(identity, COMMITTED) else None
    is_double = current.parts.shows_double_abort(standing, identity)
    return following(following(identity)) if is_double else None


def _renew_by_asking(
    current: CurrentTransaction, identity: Identity, *, may_be_ended: bool
) -> Dialogue[Reply]:
    """On level 1 only InitProducerId gives an epoch, so each attempt checks the state of the id first.

    `may_be_ended`: an EndTxn of level 2 that got no answer may have raised the epoch, also where no transaction was open.
    """
    known, is_unclear, was_open = identity, False, current.parts.is_still_open

    def attempt() -> Attempt:
        nonlocal known, is_unclear, was_open
        code, standing = yield Describe()
        if answers_later(code):
            return code  # type: ignore[no-any-return]  # yield gives Any
        was_open = was_open or (may_be_ended and standing.state in ABORTED)
        if known == identity and not code and current.parts.shows_double_abort(standing, identity):
            known = following(identity)
        # With a code the state is not known: brokers before Kafka 3.0 cannot answer.
        fits_both = bool(code) or (not was_open and standing.follows(identity, ABORTED))
        # A late request may have opened it again behind its end.
        is_unclear = fits_both and (current.parts.may_have_been_open or current.parts.has_lost_attempts)
        move = Move.ASK if code else next_move(standing, known, was_open=was_open)
        if move is Move.GIVE_WAY:
            return ErrorCode.PRODUCER_FENCED
        if move is Move.WAIT:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if move is Move.ASK_AS_FOLLOWING:
            known = following(known)
        elif not code and standing.state == ONGOING:
            # The answer to the request that opened it, or to one that ends it, was lost, or the request was given up. The request
            # that follows ends it.
            current.parts.opened = was_open = True
            # If it is refused, the coordinator may have aborted the transaction behind this answer.
            is_unclear = True
        return (yield from _request(current, known))

    reply: Reply = yield AskForEpoch(Request.INIT_PRODUCER_ID, attempt)
    current.parts.is_unclear = is_unclear and reply.answer is Answer.SUPERSEDED
    return reply


def _request(current: CurrentTransaction, identity: Identity) -> Attempt:
    answer: IdentityAnswer = yield RequestIdentity(identity)
    if not answer.code:
        current.ownership.obtained(answer.identity)
        # Under a new epoch they are refused.
        current.parts.has_lost_attempts = False
    return answer.code

"""The dialogue of the transactions task: everything that a transaction needs besides the calls of users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.transactions.coordinator_verdicts import Answer
from aioproducer._state.transactions.dialogues.adding import add_partitions
from aioproducer._state.transactions.dialogues.opening import look_whether_open
from aioproducer._state.transactions.dialogues.standing import (
    aborted_by_coordinator,
    not_taken_over,
    renewed_after_abort,
)
from aioproducer._state.transactions.dialogues.steps import Adding, AwaitRecords, EndRecords, Explain, InTurn
from aioproducer._state.transactions.table import State
from aioproducer.errors import ProducerFencedError

if TYPE_CHECKING:
    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer._state.transactions.dialogues.steps import Dialogue
    from aioproducer.errors import KafkaError

FAILED_ELSEWHERE = "the record was not sent, as another part of its transaction failed"


def pending_work(current: CurrentTransaction) -> Dialogue[None]:
    """Do the pending work."""
    if current.must_ask_why:
        yield from _ask_why(current)
    if current.table.state is State.ABORTABLE:
        yield EndRecords(current.give_up(FAILED_ELSEWHERE, current.table.cause))
        if current.parts.may_be_open:
            # Its owner may abort it after its time limit.
            yield Adding(_in_turn(look_whether_open(current)))
    elif current.parts.wanted:
        yield Adding(_in_turn(add_partitions(current)))


def _in_turn(dialogue: Dialogue[None]) -> Dialogue[None]:
    yield InTurn(dialogue)


# -- leaders have refused records for a reason that only the coordinator knows


def _ask_why(current: CurrentTransaction) -> Dialogue[None]:
    """Find out whether the transaction exceeded its time, or another producer has taken over. No call fails before that."""
    current.must_ask_why = False
    explanation: KafkaError | None = yield InTurn(_explanation(current))
    if explanation is None:
        return
    is_fenced = isinstance(explanation, ProducerFencedError)
    yield from current.taken_over(explanation) if is_fenced else current.failed(explanation)
    yield Explain(explanation)
    if is_fenced:
        yield EndRecords(current.give_up("another producer has taken over", explanation))
        yield AwaitRecords()
        yield from current.ends_with(explanation)
    elif current.table.state is State.ABORTABLE:
        yield EndRecords(current.give_up(FAILED_ELSEWHERE, explanation))
        yield AwaitRecords()
        yield InTurn(_renew_epoch(current, explanation))


def _explanation(current: CurrentTransaction) -> Dialogue[KafkaError | None]:
    if not current.unexplained:
        # The transaction was aborted meanwhile, which has ended these records.
        return None
    refusal = current.unexplained[0][0].last_error
    if current.parts.ended and current.table.cause is not None:
        # The answer to another request has given the reason already.
        explanation = current.table.cause
    else:
        aborted = yield from aborted_by_coordinator(current)
        explanation = aborted or _taken_over_or_not(current, refusal)
    current.explanation = explanation
    return explanation


def _taken_over_or_not(current: CurrentTransaction, refusal: KafkaError | None) -> KafkaError:
    return not_taken_over(refusal) if current.parts.is_newest else current.fenced(refusal)


def _renew_epoch(current: CurrentTransaction, explanation: KafkaError) -> Dialogue[None]:
    if current.parts.ended or current.table.failure() is None:
        return
    renewed = yield from renewed_after_abort(current)
    if renewed is None:
        if not current.parts.is_newest:
            yield from current.ends_with(current.fenced(explanation))
    elif renewed.answer is not Answer.DONE:
        yield from current.ends_with(current.fatal_error(renewed))

"""Commits and aborts: the requests of each case, and the result of the call."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer._state.identity.standing import NOBODY, Standing
from aioproducer._state.transactions.coordinator_verdicts import Request
from aioproducer._state.transactions.current import CurrentTransaction
from aioproducer._state.transactions.dialogues.end_attempts import attempt_to_end
from aioproducer._state.transactions.dialogues.ending import abort, commit, end_at_closing
from aioproducer._state.transactions.dialogues.renewal import renew
from aioproducer._state.transactions.dialogues.steps import (
    ConfirmCommit,
    Describe,
    EndCalls,
    EndProducer,
    EndTransaction,
    IdentityAnswer,
)
from aioproducer._state.transactions.table import Event, State
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.errors import (
    CommitOutcomeUnknownError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionError,
)
from aioproducer.outcome import Outcome
from tests.state.transactions.played import (
    BEGAN_AT,
    IDENTITY,
    TIME_LIMIT,
    Played,
    attempt,
    play,
    reply,
    transaction,
)

COMMIT, ABORT, INIT, DESCRIBE = Request.COMMIT, Request.ABORT, Request.INIT_PRODUCER_ID, Request.DESCRIBE
NEXT = (7000, 4)
NOT_KNOWN, FENCED, ABORTABLE = -1, ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_ABORTABLE
OUT_OF_TIME = Standing(*NEXT, "CompleteAbort")
TWICE = Standing(7000, 5, "CompleteAbort", may_raise_twice=True)
"""Kafka 4.0.0 has aborted the transaction by itself."""


def test_an_empty_transaction_is_not_ended() -> None:
    """No request is made for it, by either call."""
    for level in (1, 2):
        assert play(commit(transaction(level, State.COMMITTING))).requests == []
        assert play(abort(transaction(level, State.ABORTING))).requests == []


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_on_level_2_gives_the_next_identity(committed: bool) -> None:
    """The answer has it, and its time begins the marker delay."""
    current = transaction(2, State.COMMITTING if committed else State.ABORTING)
    current.sent(BEGAN_AT)
    played = play(commit(current) if committed else abort(current), [IdentityAnswer(0, NEXT, BEGAN_AT)])
    assert played.error is None
    assert played.requests == [COMMIT if committed else ABORT]
    assert (current.identity, current.parts.ended) == (NEXT, True)


@pytest.mark.parametrize(("is_clean", "request_"), [(True, ABORT), (False, INIT)], ids=["clean", "not clean"])
def test_an_abort_on_level_1_takes_an_epoch_where_a_request_may_be_late(
    is_clean: bool, request_: Request
) -> None:
    """EndTxn does not stop a request that arrives after it; a new epoch does."""
    current = transaction(1, State.ABORTING)
    current.parts.partitions.add(("t", 0))
    current.parts.failed = not is_clean
    assert play(abort(current), reply(request_)).requests == [request_]


def test_a_lost_answer_on_level_1_takes_an_epoch() -> None:
    """A late EndTxn would end the next transaction. On level 2 it is refused."""
    current = transaction(1, State.COMMITTING)
    current.parts.partitions.add(("t", 0))
    assert play(commit(current), reply(COMMIT, lost=1), reply(INIT)).requests == [COMMIT, INIT]
    current = transaction(2, State.COMMITTING)
    current.sent(BEGAN_AT)
    assert play(commit(current), reply(COMMIT, lost=1)).requests == [COMMIT]


def test_a_commit_succeeds_although_its_producer_cannot_go_on() -> None:
    """The transaction is committed, and the request for the epoch behind it is refused."""
    current = transaction(1, State.COMMITTING)
    current.parts.partitions.add(("t", 0))
    played = play(commit(current), reply(COMMIT, lost=1), reply(INIT, FENCED))
    assert played.of(ConfirmCommit)
    assert isinstance(played.error, ProducerFencedError)
    assert played.steps.index(ConfirmCommit()) < played.steps.index(EndProducer(played.error))


@pytest.mark.parametrize(
    ("code", "doubts", "kind", "state"),
    [
        (NOT_KNOWN, 0, CommitOutcomeUnknownError, State.UNCERTAIN),
        (ABORTABLE, 0, TransactionAbortedError, State.ABORTABLE),
        (ABORTABLE, 1, CommitOutcomeUnknownError, State.UNCERTAIN),
        (FENCED, 0, ProducerFencedError, State.FATAL),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 0, TransactionError, State.FATAL),
    ],
)
def test_a_commit_without_success(code: int, doubts: int, kind: type[KafkaError], state: State) -> None:
    """A transaction that may be committed is never reported as aborted."""
    current = transaction(2, State.COMMITTING)
    current.parts.groups.add("readers")
    looks = [[(0, Standing(7000, 5, "Ongoing"))]] if code == FENCED else []
    played = play(commit(current), reply(COMMIT, code, doubts=doubts), *looks)
    assert type(played.error) is kind
    assert current.table.state is state
    assert bool(played.of(EndCalls)) is (state is State.ABORTABLE)
    assert bool(played.of(EndProducer)) is (state is State.FATAL)


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("code", [ErrorCode.NONE, FENCED])
def test_a_commit_that_has_succeeded_is_known_at_once(level: int, code: int) -> None:
    """An interrupt may end the producer before the dialogue has the answer: the outcome is not told as not written then."""
    current = transaction(level, State.COMMITTING)
    current.parts.opened = True
    current.parts.asked_to_commit = True
    one = attempt_to_end(current, IDENTITY, committed=True)
    looks = [(0, Standing(7000, 5, "Empty"))] if code and level == 2 else []
    assert attempt(one, *[0.0] * (2 - level), IdentityAnswer(code, NEXT, BEGAN_AT), *looks)[1] == code
    assert (current.parts.ended, current.parts.may_be_committed) == (False, not code)


def test_a_doubt_stays_with_the_transaction() -> None:
    """A later refusal says nothing about the attempt whose answer had no meaning."""
    current = transaction(2, State.COMMITTING)
    current.parts.groups.add("readers")
    unclear = [IdentityAnswer(NOT_KNOWN, NOBODY, BEGAN_AT)]
    assert isinstance(play(commit(current), unclear).error, CommitOutcomeUnknownError)
    current.table.state = State.COMMITTING
    error = play(commit(current), reply(COMMIT, ABORTABLE)).error
    assert type(error) is CommitOutcomeUnknownError
    assert current.table.state is State.UNCERTAIN


def test_an_abort_without_a_meaning_may_be_repeated() -> None:
    """The state stays, and the next call asks again."""
    current = transaction(2, State.ABORTING)
    current.parts.groups.add("readers")
    assert type(play(abort(current), reply(ABORT, NOT_KNOWN)).error) is TransactionError
    assert current.table.state is State.ABORTING
    assert play(abort(current), reply(ABORT)).error is None


def refused_end(current_state: State, standing: Standing, *, level: int = 2, lost: int = 0) -> Played:
    """A transaction with a record is ended, refused, and the state of the id is this one."""
    current = transaction(level, current_state)
    current.sent(BEGAN_AT)
    current.parts.partitions.add(("t", 0))
    current.parts.opened = True
    current.parts.end_in_doubt = lost > 0
    request = COMMIT if current_state is State.COMMITTING else ABORT
    dialogue = commit(current) if request is COMMIT else abort(current)
    is_certain = standing == OUT_OF_TIME and not (lost and level == 1)
    renewal = [reply(ABORT if level == 2 else INIT)] if is_certain else []
    refusal = reply(request, ErrorCode.INVALID_TXN_STATE, lost=lost)
    return play(dialogue, refusal, [(0, standing)], *renewal)


def test_the_coordinator_has_aborted_it() -> None:
    """Its time was over: the commit fails, and only this transaction; an abort has nothing left to do."""
    for level in (1, 2):
        played = refused_end(State.COMMITTING, OUT_OF_TIME, level=level)
        assert isinstance(played.error, TransactionAbortedError)
        assert not played.of(EndProducer)
        assert refused_end(State.ABORTING, OUT_OF_TIME, level=level).error is None


def test_another_producer_has_taken_over() -> None:
    """Two epochs later: the producer ends."""
    played = refused_end(State.COMMITTING, Standing(7000, 5, "Ongoing"))
    assert played.of(EndProducer)


def test_a_lost_end_on_level_1_proves_nothing() -> None:
    """The transaction that the coordinator aborted may be that of a successor."""
    assert refused_end(State.COMMITTING, OUT_OF_TIME, level=1, lost=1).of(EndProducer)


def test_the_time_limit_is_the_reason_only_after_it() -> None:
    """A coordinator also aborts on request of an operator."""
    for after, text in (
        (TIME_LIMIT, "exceeded its time limit of 60 s"),
        (1.0, "another client requested it"),
    ):
        current = transaction(2, State.COMMITTING)
        current.sent(BEGAN_AT)
        renewed = reply(ABORT, at=BEGAN_AT + after)
        script = [reply(COMMIT, ErrorCode.INVALID_TXN_STATE), [(0, OUT_OF_TIME)], renewed]
        error = play(commit(current), *script).error
        assert error is not None
        assert text in str(error.__cause__)


@pytest.mark.parametrize(
    ("code", "standing", "counts"),
    [
        (FENCED, Standing(*IDENTITY, "PrepareCommit"), ErrorCode.CONCURRENT_TRANSACTIONS),
        (FENCED, Standing(*IDENTITY, "CompleteCommit"), ErrorCode.CONCURRENT_TRANSACTIONS),
        (FENCED, Standing(7000, 5, "Empty"), FENCED),
        (
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            Standing(*IDENTITY, "Ongoing"),
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ),
    ],
)
def test_a_refusal_while_markers_are_written(code: int, standing: Standing, counts: int) -> None:
    """Kafka refuses the newest epoch until they are written: the request is repeated."""
    refused = IdentityAnswer(code, (-1, -1), BEGAN_AT)
    one = attempt_to_end(transaction(2), IDENTITY, committed=False)
    questions, result = attempt(one, refused, (0, standing))
    assert questions == [EndTransaction(IDENTITY, committed=False), Describe()]
    assert result == counts


def _open_at_kafka_4_0_0(state: State) -> CurrentTransaction:
    current = transaction(2, state)
    current.sent(BEGAN_AT)
    current.parts.opened = True
    return current


def test_an_abort_behind_one_that_raised_the_epoch_twice() -> None:
    """It is requested under the epoch that the coordinator has raised."""
    refused, standing = IdentityAnswer(FENCED, NOBODY, BEGAN_AT), (0, TWICE)
    step: Any = next(renew(_open_at_kafka_4_0_0(State.ABORTING), IDENTITY))
    questions, code = attempt(step.attempt(), refused, standing, standing)
    assert (questions, code) == (
        [EndTransaction(IDENTITY, committed=False), Describe(), Describe()],
        ErrorCode.CONCURRENT_TRANSACTIONS,
    )
    questions, code = attempt(step.attempt(), IdentityAnswer(0, (7000, 6), BEGAN_AT))
    assert (questions, code) == ([EndTransaction((7000, 5), committed=False)], 0)


@pytest.mark.parametrize("standing", [TWICE._replace(may_raise_twice=False), TWICE._replace(state="Ongoing")])
def test_no_abort_is_requested_under_the_epoch_of_a_successor(standing: Standing) -> None:
    """The refusal is final."""
    current = _open_at_kafka_4_0_0(State.ABORTING)
    played = play(abort(current), reply(ABORT, FENCED), [(0, standing)])
    assert isinstance(played.error, ProducerFencedError)


@pytest.mark.parametrize(("opened", "doubts"), [(True, 1), (False, 0)])
def test_an_epoch_that_was_raised_twice_may_be_that_of_a_successor(opened: bool, doubts: int) -> None:
    """It came behind a commit without an answer, or began where nothing was open."""
    current = _open_at_kafka_4_0_0(State.COMMITTING)
    current.parts.opened = opened
    current.parts.asked_to_commit = current.parts.end_in_doubt = doubts > 0
    error = play(commit(current), reply(COMMIT, FENCED, doubts=doubts), [(0, TWICE)]).error
    assert isinstance(error, ProducerFencedError)
    assert error.outcome is (Outcome.UNKNOWN if doubts else Outcome.NOT_WRITTEN)
    assert "or the transaction exceeded its time limit" in str(error)


def test_a_coordinator_that_has_forgotten_the_producer() -> None:
    """An abort on level 2 asks it for a new identity, by the only request that gives one."""
    current = transaction(2, State.ABORTING)
    current.sent(BEGAN_AT)
    forgotten = reply(ABORT, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    looked = [(0, Standing(*IDENTITY, "Empty")), IdentityAnswer(0, NEXT, BEGAN_AT)]
    played = play(abort(current), forgotten, forgotten, looked)
    assert played.requests == [ABORT, ABORT, INIT]
    assert current.identity == NEXT


CLOSING = {
    (State.IN_TRANSACTION, False): Event.ABORT,
    (State.ABORTABLE, False): Event.ABORT,
    (State.DETACHING, True): Event.ABORT,
    (State.ABORTING, False): Event.ABORT,
    (State.UNCERTAIN, False): Event.COMMIT,
}


@pytest.mark.parametrize("is_asked", [True, False])
@pytest.mark.parametrize("state", State)
def test_the_call_at_closing(state: State, is_asked: bool) -> None:
    """An open transaction is aborted; an end without a clear answer is requested again."""
    expected = CLOSING.get((state, is_asked))
    if state in (State.IN_TRANSACTION, State.ABORTABLE, State.DETACHING):
        expected = Event.ABORT
    assert end_at_closing(transaction(2, state), is_asked=is_asked) is expected

"""Initialization, added partitions and offsets, and the questions about refused records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from aioproducer._state.identity.standing import NOBODY, Standing
from aioproducer._state.transactions.coordinator_verdicts import Request
from aioproducer._state.transactions.dialogues.adding import add_partitions, deliver_offsets
from aioproducer._state.transactions.dialogues.background import pending_work
from aioproducer._state.transactions.dialogues.ending import abort, commit
from aioproducer._state.transactions.dialogues.handles import end_handle
from aioproducer._state.transactions.dialogues.initializing import change_id, initialization
from aioproducer._state.transactions.dialogues.renewal import renew
from aioproducer._state.transactions.dialogues.steps import (
    Adding,
    AddPartitions,
    ChangeCoordinator,
    ConfirmCommit,
    Describe,
    EndCalls,
    EndProducer,
    EndRecords,
    Explain,
    IdentityAnswer,
    RefuseCalls,
    RequestIdentity,
    UpdateReadiness,
)
from aioproducer._state.transactions.table import Event, State
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.errors import (
    AuthorizationError,
    BrokerError,
    KafkaError,
    ProducerFencedError,
    StateError,
    TransactionAbortedError,
    TransactionError,
)
from aioproducer.records import GroupMetadata, OffsetAndMetadata, TopicPartition
from tests.state.transactions.played import BEGAN_AT, IDENTITY, NAME, attempt, play, reply, transaction

ADD, ADD_GROUP, OFFSETS = Request.ADD_PARTITIONS, Request.ADD_OFFSETS, Request.COMMIT_OFFSETS
COMMIT, ABORT, INIT, DESCRIBE = Request.COMMIT, Request.ABORT, Request.INIT_PRODUCER_ID, Request.DESCRIBE
NEXT = (7000, 4)
FENCED = ErrorCode.PRODUCER_FENCED
OUT_OF_TIME = Standing(*NEXT, "CompleteAbort")
QUEUE: Any = SimpleNamespace(queue=["a batch"])  # stands in for the queue of a partition


def wanting(state: State = State.IN_TRANSACTION) -> Any:
    """A transaction of level 1 with records for a partition that was not added."""
    current = transaction(1, state)
    current.parts.wanted["t", 0] = QUEUE
    return current


# -- partitions and offsets


def test_an_added_partition_may_be_sent_to() -> None:
    """It becomes part of the transaction, which is open from then on."""
    current = wanting()
    played = play(add_partitions(current), reply(ADD))
    assert [list(step.queues) for step in played.of(UpdateReadiness)] == [[QUEUE]]
    assert current.parts.partitions == {("t", 0)}
    assert (current.parts.opened, current.parts.in_doubt) == (True, False)


@pytest.mark.parametrize("state", [State.ABORTABLE, State.ABORTING])
def test_nothing_is_added_to_a_failed_transaction(state: State) -> None:
    """It would be opened again."""
    assert play(add_partitions(wanting(state))).requests == []


def test_a_partition_that_cannot_be_added_fails_the_transaction() -> None:
    """Whatever the code without a meaning says, it may have been added."""
    current = wanting()
    played = play(add_partitions(current), reply(ADD, -1))
    assert isinstance(played.error, TransactionAbortedError)
    assert played.of(EndCalls)
    assert current.table.state is State.ABORTABLE
    assert current.parts.in_doubt


def test_a_refusal_during_an_abort_ends_nothing() -> None:
    """The transaction is aborted already."""
    current = wanting()
    dialogue = add_partitions(current)
    next(dialogue)
    current.table.state = State.ABORTING
    with pytest.raises(BrokerError):
        dialogue.send(reply(ADD, ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    assert current.parts.forgotten
    assert current.table.state is State.ABORTING


def test_an_unknown_partition_without_records_is_left_out() -> None:
    """The others are asked for again. Without any nothing is added, and nothing has failed."""
    current = wanting()
    empty: Any = SimpleNamespace(queue=[])
    current.parts.wanted["gone", 0] = empty
    step: Any = next(add_partitions(current))
    assert attempt(step.attempt(), UNKNOWN_TOPIC) == (
        [AddPartitions(IDENTITY, {("t", 0): QUEUE})],
        UNKNOWN_TOPIC,
    )
    current = transaction(1)
    current.parts.wanted["gone", 0] = empty
    played = play(add_partitions(current), [UNKNOWN_TOPIC])
    assert (played.error, played.of(UpdateReadiness), current.table.state) == (None, [], State.IN_TRANSACTION)
    assert (current.parts.partitions, current.parts.opened, current.parts.in_doubt) == (set(), False, False)


@pytest.mark.parametrize("level", [1, 2])
def test_offsets_of_a_topic_that_is_gone(level: int) -> None:
    """Ten seconds without another answer end the attempts, and fail the transaction."""
    current = transaction(level)
    current.parts.groups.add("readers")
    current.record_offsets({TopicPartition("s", 0): OffsetAndMetadata(5)}, GroupMetadata("readers"))
    dialogue: Any = deliver_offsets(current)
    turn: Any = next(dialogue).dialogue
    step: Any = next(turn)
    for answers, code in (
        ([UNKNOWN_TOPIC, 100.0], UNKNOWN_TOPIC),
        ([UNKNOWN_TOPIC, 105.0], UNKNOWN_TOPIC),
        ([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS], ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ([UNKNOWN_TOPIC, 111.0], UNKNOWN_TOPIC),
        ([UNKNOWN_TOPIC, 120.9], UNKNOWN_TOPIC),
        ([UNKNOWN_TOPIC, 121.0], ErrorCode.NONE),
    ):
        assert attempt(step.attempt(), *answers)[1] == code
    failure: Any = turn.send(reply(OFFSETS))
    assert isinstance(failure, EndCalls)
    with pytest.raises(TransactionAbortedError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        next(turn)


@pytest.mark.parametrize(("level", "requests"), [(1, [ADD_GROUP, OFFSETS]), (2, [OFFSETS])])
def test_offsets_of_a_group(level: int, requests: list[Request]) -> None:
    """Level 1 names the group first. The group is a part of the transaction."""
    current = transaction(level)
    current.record_offsets({TopicPartition("s", 0): OffsetAndMetadata(5)}, GroupMetadata("readers"))
    played = play(deliver_offsets(current), *(reply(each) for each in requests))
    assert played.requests == requests
    assert current.parts.groups == {"readers"}
    assert not current.parts.recorded


def test_offsets_keep_the_facts_under_which_they_were_recorded() -> None:
    """The last offset of a partition comes last. Only offsets under the same facts share a request."""
    current = transaction(2)
    older, newer = GroupMetadata("readers", 4, "me"), GroupMetadata("readers", 5, "me")
    for partition, offset, group in (
        (0, 5, older),
        (1, 6, older),
        (0, 1, GroupMetadata("others")),
        (0, 7, older),
        (0, 8, newer),
        (1, 9, older),
    ):
        current.record_offsets({TopicPartition("s", partition): OffsetAndMetadata(offset)}, group)
    told = [
        (group, {place.partition: offset.offset for place, offset in offsets.items()})
        for group, offsets in current.parts.recorded
    ]
    assert told == [
        (older, {0: 7, 1: 6}),
        (GroupMetadata("others"), {0: 1}),
        (newer, {0: 8}),
        (older, {1: 9}),
    ]
    assert play(deliver_offsets(current), *[reply(OFFSETS)] * 4).requests == [OFFSETS] * 4


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize(
    ("lost", "place", "offset", "state"),
    [
        (1, ("readers", 0), 9, State.ABORTABLE),
        (1, ("readers", 0), 5, State.IN_TRANSACTION),
        (1, ("readers", 1), 9, State.IN_TRANSACTION),
        (1, ("others", 0), 9, State.IN_TRANSACTION),
        (0, ("readers", 0), 9, State.IN_TRANSACTION),
    ],
)
def test_offsets_that_a_late_request_may_replace(
    level: int, lost: int, place: tuple[str, int], offset: int, state: State
) -> None:
    """A request without an answer was repeated. Executed late, it would set the former offset of the partition again."""
    current = transaction(level)
    current.parts.groups.update(("readers", "others"))
    current.record_offsets({TopicPartition("s", 0): OffsetAndMetadata(5)}, GroupMetadata("readers"))
    play(deliver_offsets(current), reply(OFFSETS, lost=lost))
    group, partition = place
    current.record_offsets({TopicPartition("s", partition): OffsetAndMetadata(offset)}, GroupMetadata(group))
    fails = state is State.ABORTABLE
    played = play(deliver_offsets(current), *[reply(OFFSETS)] * (not fails))
    assert current.table.state is state
    assert isinstance(played.error, TransactionAbortedError) is fails
    assert current.table.passes()


@pytest.mark.parametrize(
    ("epoch", "kind", "state"),
    [
        (IDENTITY[1], TransactionAbortedError, State.ABORTABLE),
        (IDENTITY[1] + 2, ProducerFencedError, State.FATAL),
    ],
)
def test_a_group_refuses_this_producer(epoch: int, kind: type[KafkaError], state: State) -> None:
    """Its coordinator may not know the transaction. That of the id knows whether another producer has taken over."""
    current = transaction(2)
    current.record_offsets({TopicPartition("s", 0): OffsetAndMetadata(5)}, GroupMetadata("readers"))
    look = [(0, Standing(IDENTITY[0], epoch, "Ongoing"))]
    played = play(deliver_offsets(current), reply(OFFSETS, FENCED), look)
    assert (type(played.error), current.table.state) == (kind, state)
    assert current.parts.is_clean is (state is State.FATAL)


# -- a request that opens it, without an answer

ONGOING = Standing(*IDENTITY, "Ongoing")
UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _first_attempt_lost(current: Any) -> Any:
    """Attempts to add a partition, of which the first had no answer."""
    step: Any = next(add_partitions(current))
    next(step.attempt())
    return step.attempt


@pytest.mark.parametrize(
    ("answer", "opened"),
    [
        ((0, ONGOING), True),
        ((0, Standing(*IDENTITY, "CompleteCommit")), False),
        ((0, OUT_OF_TIME), False),
        ((0, Standing(7000, 5, "Ongoing")), False),
        ((ErrorCode.UNSUPPORTED_VERSION, Standing(-1, -1, "")), False),
    ],
)
def test_a_refused_repetition_is_followed_by_a_look(answer: tuple[int, Standing], opened: bool) -> None:
    """Only an open transaction of its own identity is a proof; the code of the refusal counts."""
    current = wanting()
    attempts = _first_attempt_lost(current)
    questions, code = attempt(attempts(), UNKNOWN_TOPIC, answer)
    assert questions[1:] == [Describe()]
    assert code == UNKNOWN_TOPIC
    assert current.parts.was_opened is opened


def test_a_clear_refusal_needs_no_look() -> None:
    """Nothing was opened. Nor does a success need one, or a transaction that is known to be open."""
    step: Any = next(add_partitions(wanting()))
    for _ in range(2):
        assert len(attempt(step.attempt(), UNKNOWN_TOPIC)[0]) == 1
    assert len(attempt(_first_attempt_lost(wanting())(), 0)[0]) == 1
    current = wanting()
    current.parts.opened = True
    assert len(attempt(_first_attempt_lost(current)(), UNKNOWN_TOPIC)[0]) == 1


def test_an_answer_that_proves_nothing_is_followed_by_a_look() -> None:
    """The coordinator may have executed the request."""
    step: Any = next(add_partitions(wanting()))
    assert attempt(step.attempt(), -1, (0, ONGOING))[0][1:] == [Describe()]


@pytest.mark.parametrize(("in_doubt", "looks"), [(True, 1), (False, 0)])
def test_a_failed_transaction_is_looked_at_once(in_doubt: bool, looks: int) -> None:
    """Its owner may abort it after its time limit; a stop of the additions ends the look as well."""
    current = transaction(1, State.ABORTABLE)
    current.parts.in_doubt = in_doubt
    played = play(pending_work(current), *([[(0, ONGOING)]] * looks))
    assert (len(played.of(Adding)), played.requests) == (looks, [DESCRIBE] * looks)
    assert current.parts.opened is in_doubt


@pytest.mark.parametrize(
    ("answer", "names_both"),
    [
        ((0, OUT_OF_TIME), True),
        ((ErrorCode.UNSUPPORTED_VERSION, Standing(-1, -1, "")), True),
        ((0, Standing(*NEXT, "CompleteCommit")), False),
        ((0, Standing(7000, 5, "Empty")), False),
    ],
)
def test_the_error_names_what_the_state_fits(answer: tuple[int, Standing], names_both: bool) -> None:
    """An aborted transaction under the next epoch, or no answer, fits a time-out too."""
    current = transaction(1, State.ABORTING)
    current.parts.in_doubt = True
    refused = [IdentityAnswer(FENCED, NOBODY, BEGAN_AT)] if answer[0] else []
    error = play(abort(current), [answer, *refused], [answer]).error
    assert type(error) is ProducerFencedError
    assert ("exceeded its time limit of 60 s" in str(error)) is names_both
    assert "another producer took over" in str(error)


def test_the_error_names_what_may_have_come_between_two_questions() -> None:
    """The coordinator told that the transaction is open, and refused the epoch: it may have aborted it in between."""
    current = transaction(1, State.ABORTABLE)
    current.parts.opened = True
    current.table.move(Event.INIT)
    refused = IdentityAnswer(FENCED, NOBODY, BEGAN_AT)
    played = play(initialization(current, None), [(0, Standing(*IDENTITY, "Ongoing")), refused])
    assert type(played.error) is ProducerFencedError
    assert "exceeded its time limit of 60 s" in str(played.error)


def test_the_error_names_what_fits_a_late_request_too() -> None:
    """Behind a commit, a late request may have opened an empty transaction, which the coordinator has aborted at its limit."""
    current = transaction(1, State.COMMITTING)
    current.parts.opened = current.parts.has_lost_attempts = True
    current.parts.partitions.add(("t", 0))
    played = play(commit(current), reply(COMMIT), [(0, OUT_OF_TIME)])
    assert "exceeded its time limit of 60 s" in str(played.error)
    assert [type(step) for step in played.steps[-2:]] == [ConfirmCommit, EndProducer]


def test_a_late_request_is_refused_under_a_new_epoch() -> None:
    """So the state of the id fits another producer only."""
    current = transaction(1, State.COMMITTING)
    current.parts.opened = current.parts.has_lost_attempts = True
    current.parts.partitions.add(("t", 0))
    own = (0, Standing(*IDENTITY, "CompleteCommit"))
    new = IdentityAnswer(0, NEXT, BEGAN_AT)
    assert play(commit(current), reply(COMMIT), [own, new]).error is None
    current.table.state = State.READY
    current.table.move(Event.INIT)
    taken_over = [(0, Standing(NEXT[0], NEXT[1] + 1, "CompleteAbort"))]
    error = play(initialization(current, None), taken_over).error
    assert type(error) is ProducerFencedError
    assert "time limit" not in str(error)


# -- epochs


@pytest.mark.parametrize(
    ("standing", "was_open", "questions", "code"),
    [
        (Standing(*IDENTITY, "Ongoing"), True, [IDENTITY], 0),
        (Standing(*IDENTITY, "PrepareAbort"), True, [], ErrorCode.CONCURRENT_TRANSACTIONS),
        (OUT_OF_TIME, True, [NEXT], 0),
        (OUT_OF_TIME, False, [], FENCED),
        (Standing(7000, 5, "Ongoing"), True, [], FENCED),
    ],
)
def test_an_epoch_on_level_1(
    standing: Standing, was_open: bool, questions: list[tuple[int, int]], code: int
) -> None:
    """Only a producer that still owns the id asks, as Kafka ends an open transaction before it compares epochs."""
    current = transaction(1)
    current.parts.opened = was_open
    step: Any = next(renew(current, IDENTITY))
    answers = [IdentityAnswer(0, (7000, 9), BEGAN_AT)] if questions else []
    asked, result = attempt(step.attempt(), (0, standing), *answers)
    assert asked[1:] == [RequestIdentity(each) for each in questions]
    assert result == code


def test_an_epoch_behind_a_commit_without_an_answer() -> None:
    """On level 2: the commit has raised the epoch, and the request is repeated under that one."""
    current = transaction(2)
    current.sent(BEGAN_AT)
    step: Any = next(renew(current, IDENTITY))
    refused = IdentityAnswer(ErrorCode.INVALID_TXN_STATE, NOBODY, BEGAN_AT)
    committed = Standing(*NEXT, "CompleteCommit")
    assert attempt(step.attempt(), refused, (0, committed))[1] == ErrorCode.CONCURRENT_TRANSACTIONS
    asked, code = attempt(step.attempt(), IdentityAnswer(0, (7000, 5), BEGAN_AT))
    assert [question.identity for question in asked] == [NEXT]  # type: ignore[union-attr]  # EndTransaction
    assert (code, current.identity) == (0, (7000, 5))


# -- initialization


def test_a_named_id_is_taken_over() -> None:
    """Without an epoch of its own, and from the coordinator of that id."""
    current = transaction(2, State.READY)
    change_id(current, "others")
    current.table.state = State.INITIALIZING
    played = play(initialization(current, "others"), [IdentityAnswer(0, (8000, 0), BEGAN_AT)])
    assert played.requests == [INIT]
    assert played.of(ChangeCoordinator)
    assert (current.identity, current.ownership.identified_as) == ((8000, 0), "others")


def test_a_former_id_is_taken_over_again() -> None:
    """Its epoch may have been raised by a request that was given up."""
    current = transaction(2, State.READY)
    change_id(current, "others")
    change_id(current, NAME)
    dialogue = initialization(current, None)
    current.table.state = State.INITIALIZING
    played = play(dialogue, [IdentityAnswer(0, (8000, 0), BEGAN_AT)])
    assert played.requests == [INIT]


def test_an_id_without_a_name_is_kept_only_by_its_owner() -> None:
    """Another epoch is asked for, not the id."""
    current = transaction(2, State.READY)
    dialogue = initialization(current, None)
    current.table.state = State.INITIALIZING
    played = play(dialogue, reply(ABORT, FENCED))
    assert isinstance(played.error, ProducerFencedError)
    assert played.of(EndProducer)


def test_a_refused_initialization_may_be_repeated() -> None:
    """The principal may get the permission later."""
    current = transaction(2, State.DETACHED)
    current.table.is_handed_over = True
    dialogue = initialization(current, None)
    current.table.state = State.INITIALIZING
    played = play(dialogue, reply(INIT, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    assert isinstance(played.error, AuthorizationError)
    assert current.table.state is State.UNINITIALIZED


@pytest.mark.parametrize("state", [State.ABORTABLE, State.ABORTING, State.UNCERTAIN])
def test_the_id_is_not_changed_in_the_middle(state: State) -> None:
    """The open transaction of the former id would stay open."""
    current = transaction(2, state)
    with pytest.raises(StateError, match="before the transaction of 'orders' has ended"):
        change_id(current, "others")
    assert current.ownership.sought == NAME


# -- refused records


def refused(level: int = 2) -> Any:
    """A transaction with a batch that was refused for a reason that only the coordinator knows."""
    current = transaction(level)
    current.sent(BEGAN_AT)
    current.unexplained.append((_Batch(), None))  # type: ignore[arg-type]  # only the error of it is read
    current.must_ask_why = True
    return current


class _Batch:
    last_error = None


def test_records_are_refused_as_the_time_was_over() -> None:
    """The transaction fails, its records get the reason, and the next epoch is asked for."""
    current = refused()
    looks = [[(0, OUT_OF_TIME)], [(0, OUT_OF_TIME)]]
    played = play(pending_work(current), *looks, [IdentityAnswer(0, (7000, 5), BEGAN_AT)])
    (explained,) = played.of(Explain)
    assert type(explained.reason) is TransactionError
    assert played.of(EndCalls)
    assert not played.of(EndProducer)
    assert (current.table.state, current.identity) == (State.ABORTABLE, (7000, 5))


def test_records_are_refused_as_another_producer_has_the_id() -> None:
    """Calls fail at once; the producer ends when its records have their outcome."""
    current = refused()
    played = play(pending_work(current), [(0, Standing(7000, 5, "Ongoing"))])
    kinds = [type(step) for step in played.steps]
    assert kinds.index(RefuseCalls) < kinds.index(Explain) < kinds.index(EndRecords)
    assert kinds[-1] is EndProducer
    assert current.table.state is State.FATAL


@pytest.mark.parametrize("level", [1, 2])
def test_records_are_refused_without_another_producer(level: int) -> None:
    """The coordinator names this producer as the newest. The transaction fails, and its abort gets the next epoch."""
    current = refused(level)
    current.parts.opened = True
    looks = [[(0, Standing(*IDENTITY, "Ongoing"))]] * 2
    played = play(pending_work(current), *looks)
    (explained,) = played.of(Explain)
    assert (type(explained.reason), explained.reason.retriable) == (TransactionError, True)
    assert played.of(EndCalls)
    assert not played.of(EndProducer)
    assert (current.table.state, current.parts.ended) == (State.ABORTABLE, False)


def test_another_producer_takes_over_behind_a_refusal() -> None:
    """The second look finds it."""
    current = refused()
    looks = [[(0, Standing(*IDENTITY, "Ongoing"))], [(0, Standing(7000, 5, "Ongoing"))]]
    played = play(pending_work(current), *looks)
    assert [type(step.error) for step in played.of(EndProducer)] == [ProducerFencedError]
    assert current.table.state is State.FATAL


def test_nobody_is_asked_for_records_that_have_ended() -> None:
    """The transaction was aborted meanwhile."""
    current = refused()
    current.unexplained.clear()
    assert play(pending_work(current)).requests == []


def test_a_known_reason_is_not_asked_for_again() -> None:
    """The answer to another request has given it."""
    current = refused()
    current.table.failed(TransactionError("the coordinator aborted the transaction"))
    current.parts.ended = True
    played = play(pending_work(current))
    assert played.requests == []
    assert [step.reason for step in played.of(Explain)] == [current.table.cause]


def test_partitions_are_added_beside_the_calls() -> None:
    """By the transactions task, in a step that a failure ends."""
    played = play(pending_work(wanting()), reply(ADD))
    assert isinstance(played.steps[0], Adding)


# -- handles


@pytest.mark.parametrize(
    ("standing", "committed", "kind"),
    [
        (OUT_OF_TIME, False, None),
        (OUT_OF_TIME, True, TransactionAbortedError),
        (Standing(7000, 5, "CompleteAbort", may_raise_twice=True), False, None),
        (Standing(7000, 5, "CompleteAbort"), False, ProducerFencedError),
        (Standing(*NEXT, "CompleteCommit"), False, TransactionError),
        (Standing(7000, 5, "Ongoing"), True, ProducerFencedError),
        (Standing(7000, 5, "Ongoing"), False, ProducerFencedError),
    ],
)
def test_a_refused_handle(standing: Standing, committed: bool, kind: type[Exception] | None) -> None:
    """The state of the id says whether the transaction was ended the other way, or taken over."""
    request = COMMIT if committed else ABORT
    dialogue = end_handle(IDENTITY, 2, committed=committed)
    played = play(dialogue, reply(request, FENCED), [(0, standing)])
    assert (None if played.error is None else type(played.error)) is kind

"""The table of a transaction: each move, and each refusal."""

from __future__ import annotations

import pytest

from aioproducer._state.transactions.table import (
    CALLS,
    MOVES,
    ONE_AT_A_TIME,
    UNDER_WAY,
    Event,
    State,
    TransactionTable,
)
from aioproducer.errors import (
    BrokerError,
    DeliveryTimeoutError,
    KafkaError,
    ProducerFencedError,
    RecordTooLargeError,
    StateError,
    TransactionAbortedError,
)

S, E = State, Event
BECAUSE = DeliveryTimeoutError("too late")
_ADDS = (E.SEND, E.SEND_OFFSETS, E.COMMIT, E.DETACH)


def table(state: State, cause: KafkaError | None = None) -> TransactionTable:
    """A producer that stands there."""
    return TransactionTable(state, cause)


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", State)
def test_each_cell(state: State, event: Event) -> None:
    """A move of the table leads to its state; any other is refused, names state and event, and changes nothing."""
    at = table(state, BECAUSE)
    following = MOVES.get((state, event))
    if following is not None:
        assert at.move(event) is following
        return
    with pytest.raises(KafkaError) as caught:
        at.move(event)
    assert at.state is state
    if state is S.ABORTABLE and event in _ADDS:
        assert isinstance(caught.value, TransactionAbortedError)
        assert caught.value.cause is BECAUSE
    elif state is S.FATAL:
        assert isinstance(caught.value, DeliveryTimeoutError)
        assert caught.value is not BECAUSE
    else:
        assert isinstance(caught.value, StateError)
        assert state.name in str(caught.value)
        one_at_a_time = event is E.BEGIN and state in UNDER_WAY
        assert (ONE_AT_A_TIME if one_at_a_time else state.value) in str(caught.value)
    if state is not S.FATAL:
        assert event.value in str(caught.value)


@pytest.mark.parametrize("state", State)
def test_a_call_can_be_made_in_each_state_but_the_last(state: State) -> None:
    """No state is a trap: there is a call that goes on, and the text of a refusal names one."""
    possible = {event for event in CALLS if (state, event) in MOVES}
    assert bool(possible) is (state is not S.FATAL)
    named = {event for event in Event if event.value in state.value}
    assert named <= possible


@pytest.mark.parametrize("state", [state for state in State if state is not S.FATAL])
def test_whatever_happens_a_producer_can_be_refused(state: State) -> None:
    """From then on each call raises why, every time anew; the first reason stays."""
    at = table(state)
    at.refused(fenced := ProducerFencedError())
    at.refused(KafkaError("later"))
    assert at.state is S.FATAL
    for event in CALLS:
        with pytest.raises(ProducerFencedError) as caught:
            at.check(event)
        assert caught.value is not fenced


def test_the_first_failure_is_the_cause() -> None:
    """A failure that follows from it does not replace it."""
    at = table(S.IN_TRANSACTION)
    assert at.failed(BECAUSE)
    assert not at.failed(KafkaError("dropped because of it"))
    assert at.cause is BECAUSE
    assert not at.is_open


def test_a_new_transaction_has_no_cause() -> None:
    """After an abort the failure is over."""
    at = table(S.IN_TRANSACTION)
    at.failed(BECAUSE)
    for event in (E.ABORT, E.ENDED, E.BEGIN):
        at.move(event)
    assert at.cause is None
    assert at.is_open


@pytest.mark.parametrize(
    ("cause", "again"),
    [
        (None, True),
        (DeliveryTimeoutError(), True),
        (BrokerError(code=45, name="OUT_OF_ORDER_SEQUENCE_NUMBER"), True),
        (BrokerError(code=59, name="UNKNOWN_PRODUCER_ID"), True),
        (BrokerError(code=29, name="TOPIC_AUTHORIZATION_FAILED"), False),
        (BrokerError(code=22, name="ILLEGAL_GENERATION"), False),
        (RecordTooLargeError(), False),
    ],
)
def test_whether_it_may_be_run_again(cause: KafkaError | None, *, again: bool) -> None:
    """A failure that a new epoch or time heals is retriable; one that would come again is not."""
    assert table(S.ABORTABLE, cause).aborted("no").retriable is again

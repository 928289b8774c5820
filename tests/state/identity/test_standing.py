"""The conclusions from the state of a transactional id: every case, and none ends a transaction of another producer."""

from __future__ import annotations

import itertools

import pytest

from aioproducer._state.identity.standing import (
    ABORTED,
    COMMITTED,
    EMPTY,
    LAST_EPOCH,
    ONGOING,
    PREPARING,
    Move,
    Standing,
    following,
    next_move,
)
from aioproducer._wire.error_codes import ErrorCode

ME = (7, 3)
STATES = sorted({EMPTY, ONGOING, "Dead"} | ABORTED | COMMITTED)


@pytest.mark.parametrize(
    ("standing", "was_open", "move"),
    [
        (Standing(7, 3, ONGOING), True, Move.ASK),
        (Standing(7, 3, ONGOING), False, Move.ASK),
        (Standing(7, 3, "CompleteCommit"), False, Move.ASK),
        (Standing(7, 3, "PrepareCommit"), True, Move.WAIT),
        (Standing(7, 4, "PrepareAbort"), True, Move.WAIT),
        (Standing(7, 4, "PrepareEpochFence"), True, Move.WAIT),
        (Standing(7, 4, "CompleteAbort"), True, Move.ASK_AS_FOLLOWING),
        (Standing(7, 4, "CompleteCommit"), True, Move.ASK_AS_FOLLOWING),
        (Standing(7, 4, "CompleteAbort"), False, Move.GIVE_WAY),
        (Standing(7, 4, EMPTY), False, Move.ASK),
        (Standing(7, 4, ONGOING), True, Move.GIVE_WAY),
        (Standing(7, 5, EMPTY), True, Move.GIVE_WAY),
        (Standing(7, 5, "CompleteAbort"), True, Move.GIVE_WAY),
        (Standing(8, 3, "CompleteAbort"), True, Move.GIVE_WAY),
        (Standing(8, 0, EMPTY), True, Move.GIVE_WAY),
    ],
)
def test_how_to_ask(standing: Standing, was_open: bool, move: Move) -> None:
    """Its own epoch is renewed, a possibly lost answer is requested again, any other epoch belongs to another producer."""
    assert next_move(standing, ME, was_open=was_open) is move


def test_a_lost_answer_with_another_producer_id_is_asked_for_again() -> None:
    """Behind the last epoch comes a new id; the coordinator remembers whose it was."""
    assert next_move(Standing(8, 0, EMPTY), (7, LAST_EPOCH), was_open=True) is Move.ASK
    assert next_move(Standing(8, 0, ONGOING), (7, LAST_EPOCH), was_open=True) is Move.GIVE_WAY
    assert next_move(Standing(8, 0, "CompleteCommit"), (7, LAST_EPOCH), was_open=True) is Move.ASK
    assert next_move(Standing(8, 0, "CompleteCommit"), (7, LAST_EPOCH), was_open=False) is Move.GIVE_WAY
    assert next_move(Standing(8, 0, "PrepareCommit"), (7, LAST_EPOCH), was_open=True) is Move.GIVE_WAY


def test_nothing_is_asked_while_another_may_have_something_open() -> None:
    """Over an open transaction Kafka compares no epochs; while one is being ended, asking is of no use."""
    for producer_id, epoch, state, was_open in itertools.product((7, 8), range(8), STATES, (True, False)):
        move = next_move(Standing(producer_id, epoch, state), ME, was_open=was_open)
        if state == ONGOING and (producer_id, epoch) != ME:
            assert move is Move.GIVE_WAY
        if state in PREPARING:
            assert move in (Move.WAIT, Move.GIVE_WAY)


def test_only_the_next_epoch_follows() -> None:
    """A second change was made by another producer."""
    assert following(ME) == (7, 4)
    for epoch in range(8):
        assert Standing(7, epoch, "CompleteAbort").follows(ME, ABORTED) is (epoch == 4)
    assert not Standing(7, 4, "CompleteCommit").follows(ME, ABORTED)
    assert not Standing(8, 4, "CompleteAbort").follows(ME, ABORTED)


def test_only_an_abort_under_the_second_next_epoch_is_a_double_one() -> None:
    """And only where the brokers may be of Kafka 4.0.0."""
    for producer_id, epoch, state in itertools.product((7, 8), range(8), STATES):
        shows = (producer_id, epoch) == (7, 5) and state in ABORTED
        assert Standing(producer_id, epoch, state, may_raise_twice=True).shows_double_abort(ME) is shows
        assert not Standing(producer_id, epoch, state).shows_double_abort(ME)


@pytest.mark.parametrize(
    ("standing", "identity", "passes"),
    [
        # Markers are being written, or were complete just before the look.
        (
            Standing(7, 3, "PrepareCommit"),
            ME,
            {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING},
        ),
        (
            Standing(7, 3, "CompleteAbort"),
            ME,
            {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING},
        ),
        # The producer id is known while its transaction is open: this coordinator contradicts itself.
        (Standing(7, 3, ONGOING), ME, {ErrorCode.PRODUCER_FENCED}),
        # The epochs of producer id 6 are used up, and 7 comes behind it.
        (
            Standing(6, LAST_EPOCH + 1, "PrepareAbort"),
            (7, 0),
            {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING},
        ),
        (
            Standing(7, 0, "CompleteAbort"),
            (7, 0),
            {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING},
        ),
        (Standing(6, LAST_EPOCH + 1, "CompleteAbort"), (7, 0), set()),
        # Another producer has taken over.
        (Standing(7, 4, "PrepareAbort"), ME, set()),
        (Standing(7, 4, EMPTY), ME, set()),
        (Standing(8, 0, ONGOING), ME, set()),
    ],
)
def test_what_is_refused_only_while_markers_are_written(
    standing: Standing, identity: tuple[int, int], passes: set[int]
) -> None:
    """Such a refusal says nothing of the producer, and the end is asked for again."""
    codes = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert {code for code in codes if standing.passes(code, identity)} == passes

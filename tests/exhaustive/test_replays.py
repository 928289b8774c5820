"""Scripts that once were of interest: each order of events that broke the promise is kept here."""

from __future__ import annotations

import pytest

from aioproducer import Outcome
from tests.exhaustive.explorer import replay
from tests.exhaustive.models import BY_NAME, LARGE_MODELS, MODELS, SMALL_MODELS
from tests.exhaustive.promise import history, log
from tests.judge.history import counts

# The model, and the events as a failure prints them.
REPLAYS = (
    # A record whose batch was split after it had been lost forgot that it was on the wire.
    ("fates", "drain 1; arrive 1; cut 1; tick; tick; drain 1; arrive 1 0 too-large"),
    # The leader moves with one batch unanswered: those behind it go to the next leader, and are answered before it.
    ("three batches of one line", "drain 1; arrive 1; move 0; told; drain 2; drain 2; arrive 2; answer 2"),
    # Short before its deadline a batch is refused for the gap that the one before it left.
    ("late calls", "append; drain 1; tick; append; drain 1; arrive 1 0 declined; expire"),
    # The numbers of a batch whose first attempt may come late are not given to the next.
    ("three batches of one line", "drain 1; stray 1; expire; drain 1; arrive 1; late 0; answer 1"),
    # A producer with calls that wait for memory ends.
    ("little memory", "close"),
)


@pytest.mark.parametrize(("name", "script"), REPLAYS)
def test_what_was_found_once_is_not_found_again(name: str, script: str) -> None:
    """Each step keeps the promise, and so does the end that follows."""
    replay(BY_NAME[name], script.split("; "))


def test_a_replay_goes_to_the_end() -> None:
    """Without a fault every record is acknowledged, and the log holds them all."""
    world = replay(BY_NAME["three batches"], ())
    numbers = counts(history(world))
    assert numbers[Outcome.ACKED] == len(world.records) == len(log(world)) == 5


def test_a_replay_refuses_what_cannot_happen() -> None:
    """A script that does not fit the model any more is noticed."""
    with pytest.raises(AssertionError, match="cannot happen here"):
        replay(BY_NAME["three batches"], ["answer 1"])


def test_the_same_events_lead_to_the_same_world() -> None:
    """A printed case can be replayed any number of times."""
    script = ("drain 1", "move 0", "arrive 1", "answer 1", "tick")
    ends = [[record.outcome for record in replay(BY_NAME["three batches"], script).records] for _ in range(2)]
    assert ends[0] == ends[1]


def test_models_have_names_of_their_own() -> None:
    """A replay names its model: no two are called the same."""
    assert len(BY_NAME) == len((*MODELS, *LARGE_MODELS, *SMALL_MODELS))

"""Waits after failures."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer._state.backoff import JITTER, Backoff

RETRY = Backoff(0.1, 1.0)


class Fixed:
    """Chance that always says the same."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


def test_waits_double_up_to_the_maximum() -> None:
    """KIP-580: 100, 200, 400, 800 and then 1000 ms."""
    waits = [RETRY.plain(failures) for failures in range(6)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


@pytest.mark.parametrize(("chance", "factor"), [(0.0, 0.8), (0.5, 1.0), (0.75, 1.1)])
def test_jitter_is_a_fifth_either_way(chance: float, factor: float) -> None:
    """The wait is spread over 80 to 120 percent of its plain value."""
    assert RETRY.after(1, Fixed(chance)) == pytest.approx(0.2 * factor)


def test_the_maximum_holds_after_the_jitter() -> None:
    """The setting is the longest wait that there is, not the middle of a range."""
    assert RETRY.after(20, Fixed(0.999)) == 1.0


def test_set_up_timeout_grows_by_the_same_rule() -> None:
    """A connection may take 10 seconds to come up, after failures 20 and then 30."""
    timeout = Backoff(10.0, 30.0)
    assert [timeout.plain(failures) for failures in range(4)] == [10.0, 20.0, 30.0, 30.0]


def test_no_backoff_is_no_wait() -> None:
    """A base of 0 means at once, however often it failed."""
    assert Backoff(0.0, 1.0).after(1000, Fixed(0.9)) == 0.0


def test_a_maximum_below_the_base_wins() -> None:
    """Settings that contradict each other give the shorter wait."""
    assert Backoff(5.0, 1.0).plain(0) == 1.0


@pytest.mark.parametrize(("base", "maximum", "wrong"), [(-1.0, 1.0, "base"), (1.0, -1.0, "maximum")])
def test_negative_waits_are_refused(base: float, maximum: float, wrong: str) -> None:
    """A negative time is an error that names the value."""
    with pytest.raises(ValueError, match=wrong):
        Backoff(base, maximum)


@given(
    base=st.floats(0, 100),
    maximum=st.floats(0, 1000),
    failures=st.integers(0, 10**9),
    seed=st.integers(0, 2**32),
)
def test_waits_stay_within_their_bounds(base: float, maximum: float, failures: int, seed: int) -> None:
    """Any number of failures gives a wait within a fifth of the plain one, never above the maximum."""
    backoff = Backoff(base, maximum)
    wait = backoff.after(failures, random.Random(seed))
    assert (1 - JITTER) * backoff.plain(failures) <= wait * 1.000001
    assert wait <= min(maximum, (1 + JITTER) * backoff.plain(failures) * 1.000001)


@given(st.integers(0, 100))
def test_waits_never_get_shorter(failures: int) -> None:
    """Another failure never shortens the plain wait."""
    assert RETRY.plain(failures) <= RETRY.plain(failures + 1)

"""How long the first records of a transaction are kept back, against brokers that keep them back themselves."""

from __future__ import annotations

import math

import attrs
import pytest

from aioproducer._state.transactions.marker_delay import KEPT, MOST, NEAR, SOMETHING_ELSE, MarkerDelay

BROKER_KEEPS = 0.020


@attrs.define(eq=False)
class Transactions:
    """One after the other, at a broker whose markers are written a while after EndTxn was answered."""

    marker_delay: MarkerDelay = attrs.Factory(MarkerDelay)
    now: float = 100.0
    markers: float = 0.0
    trip: float = 0.001
    # Every so many transactions something takes longer that has nothing to do with markers.
    stalls: tuple[int, float] = (0, 0.0)
    kept: int = 0
    waited: float = 0.0

    def play(self, count: int, idle: float = 0.0) -> None:
        """So many, each begun so long after the end of the one before."""
        self.kept, self.waited = 0, 0.0
        every, longer = self.stalls
        for number in range(count):
            ended_at = self.now
            begun_at = self.now + idle
            self.now = max(begun_at, self.marker_delay.until)
            self.waited += self.now - begun_at
            early = self.now - ended_at < self.markers
            self.marker_delay.sent(self.now)
            self.now += self.trip + BROKER_KEEPS * early
            if every and number % every == 0:
                self.now += longer
            self.kept += early
            self.marker_delay.answered(self.now)
            self.marker_delay.ended(self.now)


@pytest.fixture
def quick() -> Transactions:
    """A producer whose first transaction is over."""
    one = Transactions()
    one.play(1)
    return one


@pytest.mark.parametrize("markers", [0.0005, 0.001, 0.002, 0.005])
def test_the_broker_hardly_keeps_records(quick: Transactions, markers: float) -> None:
    """After a while few of them come too early, and they do not come much later than they have to."""
    quick.markers = markers
    quick.play(300)
    quick.play(1000)
    assert quick.kept < 40
    assert quick.waited / 1000 < 2 * markers + NEAR


@pytest.mark.parametrize("longer", [KEPT - 0.001, SOMETHING_ELSE, 0.5])
def test_what_else_takes_its_time_teaches_nothing(quick: Transactions, longer: float) -> None:
    """A network that loses a packet, a disk that is busy: every tenth record is late, and waiting would not help."""
    quick.stalls = (10, longer)
    quick.play(1000)
    assert quick.waited == 0.0


@pytest.mark.parametrize("idle", [0.0, 0.05])
def test_nothing_waits_for_a_broker_that_keeps_nothing(quick: Transactions, idle: float) -> None:
    """However long they take there, as long as they always do."""
    for quick.trip in (0.001, 0.1):
        quick.play(6000, idle)
        quick.play(1000, idle)
        assert quick.waited < 0.001


def test_a_pause_of_the_program_is_respite_enough(quick: Transactions) -> None:
    """A transaction that begins late does not wait, whatever was learned."""
    quick.markers = 0.002
    quick.play(300)
    quick.play(100, idle=0.01)
    assert (quick.kept, quick.waited) == (0, 0.0)


def test_what_was_learned_is_forgotten(quick: Transactions) -> None:
    """The markers are quicker from some day on."""
    quick.markers = 0.005
    quick.play(300)
    quick.markers = 0.0
    quick.play(3000)
    quick.play(1000)
    assert quick.waited / 1000 < 0.0001


def test_what_does_not_help_is_given_up(quick: Transactions) -> None:
    """For markers that take too long, the broker waits alone, and not both sides."""
    quick.markers = 10 * MOST
    quick.play(1000)
    assert quick.kept == 1000
    assert quick.waited / 1000 < MOST / 2


def test_only_the_first_records_wait() -> None:
    """Those behind them may leave at once, and answers to them teach nothing."""
    marker_delay = MarkerDelay()
    assert marker_delay.until == -math.inf
    marker_delay.sent(0.0)
    marker_delay.answered(0.001)
    marker_delay.ended(1.0)
    marker_delay.sent(1.0)
    marker_delay.answered(1.001 + BROKER_KEEPS)
    assert marker_delay.seconds > 0
    marker_delay.ended(2.0)
    assert marker_delay.until == 2.0 + marker_delay.seconds
    marker_delay.sent(2.1)
    assert marker_delay.until == -math.inf
    before = marker_delay.seconds
    marker_delay.sent(2.1)
    marker_delay.answered(2.101)
    marker_delay.answered(3.0)
    assert marker_delay.seconds <= before

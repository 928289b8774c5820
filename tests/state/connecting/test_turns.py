"""The order of authentications: free behind a success, one behind the other where the credentials may be wrong."""

from __future__ import annotations

import math

import pytest

from aioproducer._state.connecting.turns import Turn, Turns


def place(number: int) -> tuple[str, int]:
    """The address of a broker."""
    return ("broker", number)


def asking(turns: Turns, number: int, now: float = 100.0, patience: float = math.inf) -> Turn:
    """An attempt at this broker that asks for its turn."""
    turn = turns.begin(place(number), patience)
    turns.ask(turn, now)
    return turn


def present(turns: Turns, turn: Turn, now: float) -> Turn:
    """It has its turn."""
    assert turns.wait(turn, now) <= 0
    turns.leave(turn)
    turns.take(turn, now)
    return turn


def test_an_attempt_that_changes_no_other_wakes_none() -> None:
    """Each of thousands that ask would wake all others, and each of these looks at all."""
    turns = one_at_a_time()
    first, second = turns.begin(place(1), math.inf), turns.begin(place(2), math.inf)
    assert not turns.ask(first, 100.0)
    assert not turns.ask(second, 100.0)
    present(turns, first, 100.0)
    assert turns.ask(first, 100.1), "it has left its turn"


def test_an_attempt_that_changes_a_place_wakes_the_others() -> None:
    """It asks again beside its first wait, and is behind the other; or one at the same address has less patience."""
    turns = one_at_a_time()
    present(turns, asking(turns, 0), 100.0)
    first, second = asking(turns, 1, 100.1), asking(turns, 2, 100.2)
    assert turns.wait(first, 100.3) < math.inf == turns.wait(second, 100.3)
    again = turns.begin(place(2), 1.0)
    assert turns.ask(again, 100.3)
    assert turns.wait(second, 100.3) == pytest.approx(1.0)


def one_at_a_time() -> Turns:
    """New credentials."""
    turns = Turns()
    turns.changed()
    return turns


def test_the_first_goes_ahead_and_the_others_follow() -> None:
    """No broker has refused the credentials: half a second between two of them, and 1.5 at most for all."""
    turns = Turns()
    first, second, third = (asking(turns, number) for number in range(3))
    present(turns, first, 100.0)
    assert turns.wait(second, 100.0) == pytest.approx(0.5)
    assert turns.wait(third, 100.0) == pytest.approx(1.5)
    present(turns, second, 100.5)
    assert turns.wait(third, 100.5) == pytest.approx(0.5)


def test_a_success_frees_all_for_a_second() -> None:
    """Also those that ask later. After it, one goes ahead again."""
    turns = Turns()
    first, second = asking(turns, 1), asking(turns, 2)
    turns.accepted(present(turns, first, 100.0), 100.1)
    assert turns.wait(second, 100.1) == 0
    assert turns.is_free(101.0)
    third = present(turns, asking(turns, 3, 101.0), 101.0)
    present(turns, asking(turns, 4, 101.05), 101.05)
    assert not turns.is_free(101.2)
    turns.leave(second)
    present(turns, asking(turns, 5, 101.2), 101.2)
    assert turns.wait(asking(turns, 6, 101.2), 101.2) == pytest.approx(0.5)
    turns.end(third)


def test_an_attempt_with_little_time_waits_for_less() -> None:
    """A renewal before the end of its session."""
    turns = Turns()
    present(turns, asking(turns, 1), 100.0)
    assert turns.wait(asking(turns, 2, patience=0.2), 100.0) == pytest.approx(0.2)


def test_behind_a_refusal_there_is_one_at_a_time() -> None:
    """Patience or not; the next success ends it."""
    turns = Turns()
    turns.refused(present(turns, asking(turns, 1), 100.0), 0.0, is_known=False)
    first, second = asking(turns, 2, patience=0.1), asking(turns, 3, patience=0.1)
    present(turns, first, 100.0)
    assert turns.wait(second, 102.0) == pytest.approx(1.0)
    turns.accepted(first, 102.0)
    assert turns.wait(second, 102.0) == 0


def test_a_refusal_that_is_known_holds_up_nobody() -> None:
    """The address refuses what others accept."""
    turns = Turns()
    turns.accepted(present(turns, asking(turns, 1), 100.0), 100.0)
    turns.refused(present(turns, asking(turns, 2), 100.0), 0.0, is_known=True)
    assert turns.is_free(100.5)


def test_brokers_that_do_not_answer_hold_up_the_others_ever_less() -> None:
    """Three seconds each for two of them; an answer begins the count again."""
    turns = one_at_a_time()
    waiting = [asking(turns, number) for number in range(8)]
    now, seconds = 100.0, []
    for turn in waiting[:6]:
        wait = max(0.0, turns.wait(turn, now))
        seconds.append(wait)
        now += wait
        present(turns, turn, now)
    assert seconds == pytest.approx([0.0, 3.0, 3.0, 1.5, 0.75, 0.5])
    turns.refused(waiting[5], 0.0, is_known=False)
    present(turns, waiting[6], now)
    assert turns.wait(waiting[7], now) == pytest.approx(3.0)


@pytest.mark.parametrize(("took", "expected"), [(0.5, 3.0), (4.0, 8.0), (20.0, 10.0)])
def test_a_slow_refusal_lets_the_next_one_take_its_time(took: float, expected: float) -> None:
    """It is as slow, and says the same: another attempt beside it would present a wrong password for nothing (S41)."""
    turns = one_at_a_time()
    turns.refused(present(turns, asking(turns, 1), 100.0), took, is_known=False)
    present(turns, asking(turns, 2), 130.0)
    third = asking(turns, 3, 130.0)
    assert turns.wait(third, 130.0) == pytest.approx(expected)
    turns.leave(third)
    # Others may be judged sooner.
    turns.changed()
    present(turns, asking(turns, 4, 160.0), 160.0)
    assert turns.wait(asking(turns, 5, 160.0), 160.0) == pytest.approx(3.0)


def test_an_attempt_that_ends_in_its_turn_gives_it_up() -> None:
    """Its connection was lost, for example."""
    turns = one_at_a_time()
    first, second = asking(turns, 1), asking(turns, 2)
    present(turns, first, 100.0)
    assert turns.wait(second, 100.0) > 0
    turns.end(first)
    present(turns, second, 100.0)


def test_the_oldest_is_next_also_if_it_was_given_up_meanwhile() -> None:
    """A connection that waits for longer than its time limit is opened again, and keeps its place."""
    turns = one_at_a_time()
    first = present(turns, asking(turns, 1), 100.0)
    second = asking(turns, 2, 101.0)
    third = asking(turns, 3, 101.5)
    turns.leave(second)
    turns.end(second)
    again = asking(turns, 2, 102.0)
    turns.end(first)
    assert turns.wait(third, 102.0) == math.inf
    present(turns, again, 102.0)


def test_a_renewal_whose_patience_is_over_goes_first() -> None:
    """It waits for the answer of the attempt under way, and for renewals before it, but for no other new connection."""
    turns = one_at_a_time()
    first = present(turns, asking(turns, 1), 100.0)
    other = asking(turns, 2, 100.0)
    renewal, next_renewal = asking(turns, 3, 101.0, patience=0.5), asking(turns, 4, 101.2, patience=0.5)
    assert turns.wait(other, 101.0) == pytest.approx(2.0)
    assert turns.wait(renewal, 101.0) == pytest.approx(0.5)
    assert turns.wait(renewal, 102.0) == pytest.approx(1.0)
    assert turns.wait(next_renewal, 102.0) == math.inf
    assert turns.wait(other, 102.0) == math.inf
    turns.end(first)
    present(turns, renewal, 102.0)
    turns.end(renewal)
    present(turns, next_renewal, 102.0)


def test_a_session_that_ended_behind_others_has_the_place_of_its_renewal() -> None:
    """Its connection is left, and a new one comes first; after its turn, the address waits like the others."""
    turns = one_at_a_time()
    first = present(turns, asking(turns, 1), 100.0)
    asking(turns, 2, 100.0)
    renewal = asking(turns, 3, 101.0, patience=0.5)
    turns.leave(renewal)
    turns.end(renewal)
    again = asking(turns, 3, 101.6)
    assert turns.wait(again, 101.6) == pytest.approx(1.4)
    turns.end(first)
    present(turns, again, 102.0)
    once_more = asking(turns, 3, 102.5)
    assert turns.wait(once_more, 102.5) == math.inf


def test_a_renewal_at_a_broker_that_does_not_answer_lets_others_go_first() -> None:
    """It had its turn."""
    turns = one_at_a_time()
    silent = present(turns, asking(turns, 1, patience=0.5), 100.0)
    turns.end(silent)
    renewal, other = asking(turns, 1, 100.5, patience=0.5), asking(turns, 2, 101.0)
    assert turns.wait(renewal, 102.0) == math.inf
    present(turns, other, 102.0)


@pytest.mark.parametrize("has_refused", [True, False])
def test_an_address_that_was_not_accepted_lets_others_go_first(*, has_refused: bool) -> None:
    """Those that ask, and for three seconds those that are on their way."""
    turns = one_at_a_time()
    first = present(turns, asking(turns, 1), 100.0)
    if has_refused:
        turns.refused(first, 0.0, is_known=False)
    turns.end(first)
    late = asking(turns, 1, 101.0)
    assert turns.wait(late, 101.0) <= 0
    on_its_way = turns.begin(place(2), math.inf)
    assert turns.wait(late, 101.0) == pytest.approx(3.0)
    turns.ask(on_its_way, 102.0)
    assert turns.wait(late, 102.0) == math.inf
    present(turns, on_its_way, 102.0)


def test_those_that_have_refused_wait_anew_behind_a_pause() -> None:
    """One asked before the refusal of another one, and was given up. Behind the pause, an attempt elsewhere goes first."""
    turns = one_at_a_time()
    first = present(turns, asking(turns, 1), 100.0)
    turns.refused(first, 0.0, is_known=False)
    turns.end(first)
    given_up, other = asking(turns, 1, 100.0), asking(turns, 2, 100.0)
    present(turns, other, 100.0)
    turns.leave(given_up)
    turns.end(given_up)
    turns.refused(other, 0.0, is_known=False)
    turns.end(other)
    third = turns.begin(place(3), math.inf)
    again = asking(turns, 1, 108.0)
    assert turns.wait(again, 108.0) == pytest.approx(3.0)
    turns.end(third)
    assert turns.wait(again, 108.0) <= 0


def test_new_credentials_make_no_address_late() -> None:
    """The refusals and silences were those of the former ones."""
    turns = one_at_a_time()
    turns.refused(present(turns, asking(turns, 1), 100.0), 0.0, is_known=False)
    turns.changed()
    assert not turns.begin(place(1), math.inf).is_late


def test_an_address_that_is_not_used_any_more_is_forgotten() -> None:
    """Brokers come and go."""
    turns = one_at_a_time()
    first = asking(turns, 1)
    turns.refused(present(turns, first, 100.0), 0.0, is_known=False)
    turns.forget(place(1))
    assert not turns.begin(place(1), math.inf).is_late


def test_an_attempt_at_the_next_address_of_a_host_does_not_wait_for_itself() -> None:
    """Its authentication at the first address is over."""
    turns = one_at_a_time()
    turn = present(turns, asking(turns, 1), 100.0)
    turns.ask(turn, 100.1)
    present(turns, turn, 100.1)
    assert not turns.begin(place(1), math.inf).is_late


def test_an_attempt_that_ends_without_an_answer_holds_up_no_other() -> None:
    """Its connection was reset, while it goes on at other addresses of its host."""
    turns = one_at_a_time()
    first, second = asking(turns, 1), asking(turns, 2)
    present(turns, first, 100.0)
    assert turns.wait(second, 100.1) == pytest.approx(2.9)
    assert turns.over(first, first.began_at)
    present(turns, second, 100.1)
    assert not turns.over(first, first.began_at)
    assert turns.begin(place(1), math.inf).is_late


def test_the_end_at_a_former_address_is_no_end_of_the_turn_at_the_next_one() -> None:
    """The first connection is reset later, when the attempt has its turn at the next address of its host."""
    turns = one_at_a_time()
    turn = present(turns, asking(turns, 1), 100.0)
    began_at = turn.began_at
    turns.ask(turn, 103.0)
    present(turns, turn, 103.0)
    assert not turns.over(turn, began_at)
    assert turns.wait(asking(turns, 2, 103.1), 103.1) == pytest.approx(2.9)


def test_attempts_that_end_without_an_answer_do_not_follow_each_other_at_once() -> None:
    """A broker may close the connection in place of a refusal; the first three may be accidents."""
    turns = one_at_a_time()
    for number in range(3):
        turns.end(present(turns, asking(turns, number), 100.0))
    fourth = present(turns, asking(turns, 3), 100.0)
    turns.end(fourth)
    fifth = asking(turns, 4)
    assert turns.wait(fifth, 100.1) == pytest.approx(0.4)
    turns.changed()
    present(turns, fifth, 100.1)


def test_the_rest_of_an_ended_attempt_gets_no_turn() -> None:
    """It is being cancelled, and would hold up the others."""
    turns = one_at_a_time()
    ended, other = asking(turns, 1), asking(turns, 2)
    turns.end(ended)
    assert turns.wait(ended, 100.0) == math.inf
    present(turns, other, 100.0)
    turns.accepted(other, 100.1)
    assert turns.wait(ended, 100.1) == math.inf

"""When metadata is asked for."""

from __future__ import annotations

import pytest

from aioproducer._state.cluster.questions import MetadataQuestion, Questions
from tests.state.cluster_answers import BACKOFF, MAX_AGE, MAX_IDLE, Middle

RNG = Middle()


def questions(rebootstrap_after: float | None = 300.0) -> Questions:
    return Questions(max_age=MAX_AGE, max_idle=MAX_IDLE, backoff=BACKOFF, rebootstrap_after=rebootstrap_after)


def settled(*topics: str, now: float = 0.0) -> Questions:
    """Questions that were all answered at `now`."""
    asked = questions()
    for topic in topics:
        asked.want(topic, now)
    assert asked.due(now) is not None
    for topic in topics:
        asked.settled(topic, now)
    asked.answered(now, changed=True)
    return asked


def test_the_first_question_is_due_at_once() -> None:
    """Even without topics: the brokers are worth knowing."""
    asked = questions()
    assert asked.next_deadline() == 0.0
    assert asked.due(0.0) == MetadataQuestion((), partial=False)


def test_one_question_at_a_time() -> None:
    """While one is under way there is no other, however much is wanted."""
    asked = questions()
    asked.due(0.0)
    asked.want("t", 0.0)
    asked.ask_for("t", 0.0)
    asked.all_stale()
    assert asked.due(1000.0) is None
    assert asked.next_deadline() == MAX_IDLE


def test_a_new_topic_is_asked_for_at_once_and_alone() -> None:
    """A topic that was never used before waits for nothing, and causes no question about the others."""
    asked = settled("t")
    asked.want("u", 0.01)
    asked.ask_for("u", 0.01)
    assert asked.next_deadline() == 0.01
    assert asked.due(0.01) == MetadataQuestion(("u",), partial=True)


def test_asking_twice_is_asking_once() -> None:
    """Ten thousand calls that wait for one topic make one question, also while it is under way."""
    asked = settled()
    for _ in range(3):
        asked.want("t", 1.0)
        asked.ask_for("t", 1.0)
    assert asked.due(1.0) == MetadataQuestion(("t",), partial=True)
    asked.ask_for("t", 1.1)
    asked.settled("t", 1.2)
    asked.answered(1.2, changed=True)
    assert asked.due(1.3) is None
    asked.ask_for("t", 1.4)
    assert asked.due(1.4) == MetadataQuestion(("t",), partial=True)


def test_calls_that_come_during_a_question_do_not_shorten_the_wait_after_it() -> None:
    """However many ask for a topic meanwhile, an answer that does not help is followed by the backoff."""
    asked = settled()
    asked.want("t", 1.0)
    asked.ask_for("t", 1.0)
    asked.due(1.0)
    asked.ask_for("t", 1.1)
    asked.unsettled("t", 1.2, again=True)
    asked.answered(1.2, changed=False)
    asked.ask_for("t", 1.25)
    assert asked.next_deadline() == pytest.approx(1.3)


def test_calls_that_come_during_a_question_share_its_refusal() -> None:
    """A refusal answers all calls that asked before it came."""
    asked = settled()
    asked.want("t", 1.0)
    asked.ask_for("t", 1.0)
    asked.due(1.0)
    asked.ask_for("t", 1.1)
    asked.unsettled("t", 1.2, again=False)
    asked.answered(1.2, changed=False)
    assert asked.due(2.0) is None


def test_everything_is_asked_again_when_it_is_old() -> None:
    """After `metadata_max_age_ms` a full question is due, not earlier."""
    asked = settled("t", "u")
    assert asked.next_deadline() == MAX_AGE
    assert asked.due(MAX_AGE - 0.001) is None
    assert asked.due(MAX_AGE) == MetadataQuestion(("t", "u"), partial=False)


def test_a_partial_answer_makes_nothing_else_younger() -> None:
    """The age of the view counts from the last full answer."""
    asked = settled("t")
    asked.want("u", 200.0)
    asked.ask_for("u", 200.0)
    asked.due(200.0)
    asked.settled("u", 200.0)
    asked.answered(200.0, changed=True)
    assert asked.next_deadline() == MAX_AGE


def test_errors_make_a_full_question_due_at_the_pace_of_the_backoff() -> None:
    """Stale metadata is asked for at once after a quiet time, but not twice within 100 ms."""
    asked = settled("t")
    asked.all_stale()
    assert asked.due(0.05) is None
    assert asked.due(0.1) == MetadataQuestion(("t",), partial=False)


def test_questions_that_bring_nothing_get_slower() -> None:
    """While errors go on and the answers stay the same, the wait doubles up to a second; a change ends that."""
    asked, now, waits = settled("t"), 0.0, []
    for _ in range(6):
        asked.all_stale()
        deadline = asked.next_deadline()
        assert deadline is not None
        waits.append(deadline - now)
        now = deadline
        asked.due(now)
        asked.answered(now, changed=False)
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    asked.all_stale()
    asked.due(now + 1.0)
    asked.answered(now + 1.0, changed=True)
    asked.all_stale()
    assert asked.next_deadline() == pytest.approx(now + 1.1)


def test_a_quiet_cluster_is_no_reason_to_be_slow() -> None:
    """Answers that change nothing because nothing happened do not delay the first question after an error."""
    asked = settled("t")
    for round_ in range(1, 9):
        asked.due(round_ * MAX_AGE)
        asked.answered(round_ * MAX_AGE, changed=False)
    asked.all_stale()
    assert asked.due(8 * MAX_AGE + 0.11) is not None


def test_an_error_while_a_question_is_under_way_asks_again() -> None:
    """The answer may have been on its way before the error: one more question follows it."""
    asked = settled("t")
    asked.all_stale()
    asked.due(1.0)
    asked.all_stale()
    asked.answered(1.5, changed=True)
    assert asked.next_deadline() == pytest.approx(1.6)


def test_failures_are_repeated_with_growing_waits() -> None:
    """A question without an answer comes again after 100, 200, 400, 800 and then 1000 ms, whatever else is wanted."""
    asked, now = questions(), 0.0
    for wait in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        assert asked.due(now) is not None
        asked.failed(now, RNG)
        asked.want(f"new at {now}", now)
        asked.ask_for(f"new at {now}", now)
        assert asked.next_deadline() == pytest.approx(now + wait)
        assert asked.due(now + 0.99 * wait) is None
        now += wait


def test_a_failed_partial_question_stays_partial() -> None:
    """Only the question that failed is asked again."""
    asked = settled("t")
    asked.want("u", 1.0)
    asked.ask_for("u", 1.0)
    asked.due(1.0)
    asked.failed(1.0, RNG)
    assert asked.due(1.2) == MetadataQuestion(("u",), partial=True)


def test_a_failed_full_question_stays_full() -> None:
    """A refresh that failed is not taken for done."""
    asked = settled("t")
    asked.due(MAX_AGE)
    asked.failed(MAX_AGE, RNG)
    assert asked.due(MAX_AGE + 0.2) == MetadataQuestion(("t",), partial=False)


def test_an_answer_ends_the_waits_after_failures() -> None:
    """After a success the next failure starts at the shortest wait again."""
    asked = questions()
    for now in (0.0, 1.0, 2.0):
        asked.due(now)
        asked.failed(now, RNG)
    asked.due(3.0)
    asked.answered(3.0, changed=True)
    asked.all_stale()
    asked.due(4.0)
    asked.failed(4.0, RNG)
    assert asked.next_deadline() == pytest.approx(4.1)


def test_a_topic_dropped_while_its_question_failed_is_not_asked_again() -> None:
    """No caller wants it any more."""
    asked = settled()
    asked.want("u", 1.0)
    asked.ask_for("u", 1.0)
    asked.due(1.0)
    asked.drop("u")
    asked.failed(1.0, RNG)
    assert asked.due(2.0) is None


def test_topics_are_idle_by_their_last_use() -> None:
    """A topic comes up once when it may be idle, and moves on if it was used since."""
    asked = settled("t")
    asked.touch("t", 100.0)
    asked.touch("nobody wants this", 100.0)
    assert asked.expire(MAX_IDLE, ()) == ()
    assert asked.expire(MAX_IDLE + 100.0, ()) == ("t",)
    assert asked.interests == {}


def test_a_topic_that_was_dropped_and_wanted_again_is_idle_by_its_new_use() -> None:
    """Leftovers of an earlier interest do not shorten a later one."""
    asked = settled("t")
    asked.drop("t")
    asked.want("t", 300.0)
    assert asked.expire(MAX_IDLE, ()) == ()
    assert asked.expire(MAX_IDLE + 299.0, ()) == ()
    assert asked.expire(MAX_IDLE + 300.0, ()) == ("t",)


def test_nobody_answers_for_five_minutes() -> None:
    """Counted from the first question without an answer, all known brokers are given up."""
    asked = settled("t", now=0.0)
    asked.due(1000.0)
    asked.failed(1000.0, RNG)
    assert not asked.rebootstrap_due(1299.9)
    asked.due(1300.0)
    assert asked.rebootstrap_due(1300.0)
    asked.rebootstrapped(1300.0)
    assert not asked.rebootstrap_due(5000.0)


def test_no_answer_since_the_beginning() -> None:
    """Brokers that never gave an answer are given up after the same time, and a first one may ask for a new beginning."""
    asked = questions()
    asked.want("t", 0.0)
    asked.due(0.0)
    asked.failed(0.0, RNG)
    assert not asked.rebootstrap_due(299.9)
    assert asked.rebootstrap_due(300.0)
    asked.rebootstrapped(300.0)
    sent_back = questions()
    sent_back.rebootstrap_required = True
    assert sent_back.rebootstrap_due(0.0)


def test_brokers_that_ask_for_a_new_beginning_each_time() -> None:
    """Each begin replaces all connections, so the pauses between them grow until there is an answer."""
    asked = settled("t", now=0.0)
    for now, until in ((1.0, 2.0), (2.0, 4.0), (4.0, 8.0)):
        asked.rebootstrap_required = True
        assert asked.rebootstrap_due(now)
        asked.rebootstrapped(now)
        asked.rebootstrap_required = True
        assert not asked.rebootstrap_due(until - 0.1)
    asked.due(7.0)
    asked.answered(7.0, changed=True)
    asked.rebootstrap_required = True
    assert asked.rebootstrap_due(7.0)


def test_brokers_that_are_given_up_at_once_are_asked_first() -> None:
    """With a time of 0 they are given up at the first question that fails, and not because one is asked."""
    asked = questions(rebootstrap_after=0.0)
    for now in (0.0, 1000.0):
        asked.due(now)
        assert not asked.rebootstrap_due(now)
        asked.answered(now, changed=True)
    asked.want("t", 2000.0)
    asked.due(2000.0)
    asked.failed(2000.0, RNG)
    assert asked.due(2001.0) is not None
    assert asked.rebootstrap_due(2001.0)


def test_a_client_with_nothing_to_ask_is_not_lost() -> None:
    """Time without a question does not count."""
    asked = settled("t")
    assert not asked.rebootstrap_due(1e6)


def test_an_answer_ends_the_search() -> None:
    """After an answer the time starts anew with the next question."""
    asked = questions()
    asked.due(0.0)
    asked.answered(1.0, changed=True)
    assert not asked.rebootstrap_due(1e6)


def test_starting_again_can_be_switched_off() -> None:
    """Without the strategy the brokers are never given up."""
    asked = questions(rebootstrap_after=None)
    asked.due(0.0)
    asked.failed(0.0, RNG)
    asked.rebootstrap_required = True
    assert not asked.rebootstrap_due(1e6)

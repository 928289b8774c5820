"""A leader that does not know the producer takes any number from it: the first batch goes to it alone."""

from __future__ import annotations

import pytest

from aioproducer import Outcome
from aioproducer._core import OUTCOMES
from aioproducer._state.cluster.facts import NO_TOPIC_ID
from aioproducer._state.identity.sequences import CONFIRMED_FOR
from aioproducer._state.queues.batches import QueuedBatch
from tests.state.machines import Machines

NEWER = (77, 0)
FORMER_ID, NEW_ID = bytes([1]) * 16, bytes([2]) * 16


@pytest.fixture
def m() -> Machines:
    return Machines().introduced(1)


def goes_alone(m: Machines) -> bool:
    """Of two batches the second leaves only when the first is in the log."""
    batches = [m.fill(b"first"), m.fill(b"second")]
    first = m.only()
    assert first is batches[0]
    if m.drain():
        return False
    m.acknowledge(first)
    return m.drain() == [batches[1]]


def test_a_known_producer_sends_several(m: Machines) -> None:
    """The leader knows which number comes next, so that nothing has to wait."""
    assert not goes_alone(m)


def test_under_a_new_producer_id_the_first_goes_alone(m: Machines) -> None:
    """The leader keeps the state of the former id only."""
    m.sequences.obtained(*NEWER)
    assert goes_alone(m)


def test_to_a_topic_that_was_made_anew_the_first_goes_alone(m: Machines) -> None:
    """Its leaders know nothing of records that were sent to the former topic of this name."""
    for topic_id in (FORMER_ID, NEW_ID):
        m.learn(1, topic_id=topic_id)
    assert goes_alone(m)


def test_a_topic_that_was_made_anew_is_sent_to_under_a_newer_epoch(m: Machines) -> None:
    """Numbers that go on from the former topic's would be a gap to a leader that has seen none of them."""
    m.learn(1, topic_id=FORMER_ID)
    before = m.fill(b"before")
    assert m.only() is before
    m.acknowledge(before)
    m.learn(1, topic_id=NEW_ID)
    m.fill(b"after")
    after = m.only()
    assert before.identity is not None
    assert (after.identity, after.sequence) == ((before.identity[0], before.identity[1] + 1), 0)


# -- leaders that may have forgotten the producer


@pytest.mark.parametrize(("silence", "alone"), [(CONFIRMED_FOR - 1, False), (CONFIRMED_FOR, True)])
def test_after_a_silence_the_first_goes_alone(m: Machines, silence: float, alone: bool) -> None:
    """A leader forgets a producer that wrote nothing for long, and takes any number from it again."""
    m.fill(b"before")
    m.acknowledge(m.only())
    m.clock.monotonic += silence
    assert goes_alone(m) is alone


# -- what may be in a topic that was deleted


def sent_to_the_former(m: Machines, count: int) -> list[QueuedBatch]:
    """So many batches on their way to a topic by its id."""
    m.learn(1, topic_id=FORMER_ID)
    m.fill(b"first")
    m.acknowledge(m.only())
    for number in range(count):
        m.fill(b"%d" % number)
    batches = [m.only() for _ in range(count)]
    for batch in batches:
        batch.sent_to = FORMER_ID
    return batches


def test_what_may_be_in_the_former_topic_is_never_sent_to_the_present_one(m: Machines) -> None:
    """A batch without an answer ends as UNKNOWN, at once, and those behind it are numbered anew."""
    lost, refused = sent_to_the_former(m, 2)
    identity = m.sequences.identity
    m.lose(lost)
    m.answer(refused, 100)
    m.learn(1, topic_id=NEW_ID)
    assert OUTCOMES[lost.outcome] is Outcome.UNKNOWN
    m.wait_for_retry()
    assert m.only() is refused
    assert refused.sequence == 0
    assert refused.identity != identity


def test_what_is_on_its_way_to_the_former_topic_is_waited_for(m: Machines) -> None:
    """Its answer is the truth about it, also when it comes after the news; without one it ends as UNKNOWN."""
    written, lost = sent_to_the_former(m, 2)
    m.learn(1, topic_id=NEW_ID)
    m.acknowledge(written)
    assert OUTCOMES[written.outcome] is Outcome.ACKED
    m.lose(lost)
    assert OUTCOMES[lost.outcome] is Outcome.UNKNOWN
    assert m.is_clean()
    assert m.queue().end_offset == 0


def test_the_parts_of_what_may_be_in_the_former_topic_are_not_sent_to_the_present_one(m: Machines) -> None:
    """The former topic has it perhaps, and then finds its repetition too large, when it was replaced already."""
    sent_to_the_former(m, 0)
    batch = m.fill(b"a", b"b")
    assert m.only() is batch
    batch.sent_to = FORMER_ID
    m.lose(batch)
    m.wait_for_retry()
    assert m.only() is batch
    m.learn(1, topic_id=NEW_ID)
    m.answer(batch, 10)
    assert OUTCOMES[batch.outcome] is Outcome.UNKNOWN
    assert m.is_clean()
    assert not m.queue().queue


def test_without_idempotence_what_may_be_in_the_former_topic_is_not_sent_to_the_present_one_either() -> None:
    """It has no number, and waits for its retry when the change arrives; refused batches go to the present topic."""
    m = Machines(idempotent=False)
    m.learn(1, topic_id=FORMER_ID)
    lost, refused = m.fill(b"lost"), m.fill(b"refused")
    for batch in (lost, refused):
        assert m.only() is batch
        batch.sent_to = FORMER_ID
    m.lose(lost)
    m.answer(refused, 100)
    m.learn(1, topic_id=NEW_ID)
    assert OUTCOMES[lost.outcome] is Outcome.UNKNOWN
    m.wait_for_retry()
    assert m.drain() == [refused]


@pytest.mark.parametrize("by_id", [True, False])
@pytest.mark.parametrize("transactional", [False, True])
def test_a_late_answer_from_the_former_topic_says_nothing_about_the_present_one(
    by_id: bool, transactional: bool
) -> None:
    """Its leaders know nothing of the producer: the first batch goes to them alone, under an epoch that may be raised."""
    m = Machines(transactional=transactional).introduced(1)
    (late,) = sent_to_the_former(m, 1)
    identity = late.identity
    if not by_id:
        late.sent_to = NO_TOPIC_ID
    m.learn(1, topic_id=NEW_ID)
    m.acknowledge(late)
    assert goes_alone(m)
    assert (m.sequences.identity == identity) is transactional


def test_news_from_the_past_write_nothing_twice(m: Machines) -> None:
    """A broker that lags behind reports the former topic, and then the present one is reported again."""
    m.learn(1, topic_id=NEW_ID)
    m.fill(b"a")
    batch = m.only()
    batch.sent_to = NEW_ID
    m.lose(batch)
    m.learn(1, topic_id=FORMER_ID)
    m.learn(1, topic_id=NEW_ID)
    m.wait_for_retry()
    assert m.drain() == []
    assert OUTCOMES[batch.outcome] is Outcome.UNKNOWN

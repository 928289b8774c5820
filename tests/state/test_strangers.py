"""A leader that does not know the producer takes any number from it: the first batch goes to it alone."""

from __future__ import annotations

import pytest

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
    """What the leader knows of the producer, it knows of the former id."""
    m.sequences.obtained(*NEWER)
    assert goes_alone(m)


def test_to_a_topic_that_was_made_anew_the_first_goes_alone(m: Machines) -> None:
    """Its leaders know nothing of what was sent to the topic of the same name before."""
    for topic_id in (FORMER_ID, NEW_ID):
        m.accumulator.learn("t", topic_id, (1,), m.now)
    assert goes_alone(m)


def test_a_topic_that_was_made_anew_is_sent_to_under_a_newer_epoch(m: Machines) -> None:
    """Numbers that go on from the former topic's would be a gap to a leader that has seen none of them."""
    m.accumulator.learn("t", FORMER_ID, (1,), m.now)
    before = m.fill(b"before")
    assert m.only() is before
    m.acknowledge(before)
    m.accumulator.learn("t", NEW_ID, (1,), m.now)
    m.fill(b"after")
    after = m.only()
    assert before.identity is not None
    assert (after.identity, after.sequence) == ((before.identity[0], before.identity[1] + 1), 0)

"""Calls that wait for memory keep their order when their partition moves to another broker."""

from __future__ import annotations

from tests.state.machines import LIMITS, Machines


def test_calls_that_move_with_their_partition_keep_their_order() -> None:
    """The first of the line is the first to get what comes back from the next leader."""
    m = Machines(LIMITS, memory=700).introduced(1)
    m.fill(bytes(500))
    calls = [m.call(bytes(400), partition=0) for _ in range(3)]
    m.lead(m.queue(), 2)
    assert [call.ended for call in calls] == [False] * 3
    for placed in (1, 2, 3):
        m.acknowledge(m.only(2))
        assert [call.delivery is not None for call in calls] == [True] * placed + [False] * (3 - placed)


def test_calls_of_a_partition_that_is_gone_come_before_later_ones() -> None:
    """They waited for its memory; in the line of the topic they stand where they stood among all calls."""
    m = Machines(LIMITS, memory=700).introduced(1, 1)
    m.fill(bytes(500), partition=0)
    early = [m.call(bytes(400), partition=1) for _ in range(2)]
    late = m.call(bytes(400), partition=2)
    m.learn(1)
    assert [call.ended for call in (*early, late)] == [False] * 3
    line = m.admission.topic_lines["t"]
    assert list(line.calls) == [call.waiting for call in (*early, late)]

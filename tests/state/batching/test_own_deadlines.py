"""Deadlines of single records that there was no memory to watch for: the records have their places, and end in time."""

from __future__ import annotations

import pytest

from aioproducer import Outcome
from aioproducer._core import peek
from aioproducer._state.deadlines import Deadlines
from tests.state.machines import Machines


def no_memory(*_: object) -> None:
    """In place of what asks for memory."""
    raise MemoryError


def test_a_deadline_without_memory_for_it_is_watched_from_the_next_pulse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The record that is accepted meanwhile ends at its own deadline, and the one beside it does not."""
    m = Machines()
    m.learn(1)
    queue = m.accumulator.cluster.topics["t"].queue(0)
    other = m.append(b"other")
    with monkeypatch.context() as patch:
        patch.setattr(Deadlines, "add", no_memory)
        delivery = m.append(b"value", timeout=1.0)
    assert queue.open is not None
    assert queue.open.record_count == 2
    m.later(0.25)
    m.later(1.0)
    assert peek(delivery)[0] is Outcome.NOT_WRITTEN
    assert not other.done()

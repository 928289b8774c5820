"""The end of a backoff comes by itself: nothing else has to happen to the partition."""

from __future__ import annotations

from tests.state.machines import LINGER, Machines


def test_a_batch_leaves_again_when_its_backoff_is_over() -> None:
    """With no linger, no other batch and no news under way, an alarm of its own is set, and serves it."""
    m = Machines().introduced(1)
    m.append()
    m.later(LINGER)
    batch = m.only()
    m.lose(batch)
    assert m.drain() == []
    due = m.next_alarm()
    assert due == batch.retry_at > m.now
    m.later(due - m.now)
    assert m.only() is batch

"""The parts of a split batch hold its memory until they have their outcomes."""

from __future__ import annotations

from tests.state.machines import Machines

MESSAGE_TOO_LARGE = 10


def test_the_parts_of_a_split_batch_hold_its_memory() -> None:
    """All of the parts' bytes stay charged, as far as the batch had paid for them, and come back part by part."""
    m = Machines().introduced(1)
    m.fill(*(bytes(400) for _ in range(4)))
    whole = m.only()
    held = m.used
    m.answer(whole, MESSAGE_TOO_LARGE)
    parts = list(m.queue().queue)
    assert len(parts) > 1
    assert m.used == min(held, sum(part.size for part in parts))
    for part in parts:
        before = m.used
        m.wait_for_retry()
        assert m.only() is part
        m.acknowledge(part)
        assert m.used < before
    assert m.is_clean()

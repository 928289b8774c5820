"""Calls that wait for memory make what lingers on its way to their broker leave at once."""

from __future__ import annotations

import attrs
import pytest

from tests.state.machines import LIMITS, Machines


@pytest.mark.parametrize("partition", [0, 1])
def test_half_full_batches_leave_when_somebody_waits(partition: int) -> None:
    """Where all memory is in lingering batches, no call waits for the end of the linger."""
    m = Machines(LIMITS, memory=700).introduced(1, 1)
    m.append(bytes(500), partition=0)
    assert m.drain() == []
    call = m.call(bytes(400), partition=partition)
    m.acknowledge(m.only())
    assert call.delivery is not None


def test_what_lingers_on_its_way_to_another_broker_leaves_too() -> None:
    """It holds the memory that a record for broker 2 waits for."""
    m = Machines(LIMITS, memory=1000).introduced(1, 2)
    m.append(bytes(500), partition=0)
    assert m.drain() == []
    call = m.call(bytes(400), partition=1)
    assert not call.ended
    m.acknowledge(m.only())
    assert call.delivery is not None


def test_what_came_after_the_call_and_lingers_on_its_way_to_another_broker_leaves_too() -> None:
    """When the call began to wait, the bytes in flight to its own broker were enough."""
    m = Machines(attrs.evolve(LIMITS, linger=50.0), memory=2000).introduced(1, 2)
    m.fill(bytes(900), partition=0)
    first = m.only(1)
    call = m.call(bytes(1400), partition=0)
    m.append(bytes(500), partition=1)
    assert m.drain(2) == []
    m.acknowledge(first)
    assert not call.ended
    m.acknowledge(m.only(2))
    assert call.delivery is not None

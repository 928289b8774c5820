"""A flush ends with the last record it waits for, however that one ends: also before it was ever sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aioproducer._core import Delivery
from tests.state.machines import DELIVERY_TIMEOUT, Machines


def purged(m: Machines, delivery: Delivery) -> None:
    assert m.settlement.purge(delivery.topic, m.now) == 1


def withdrawn(m: Machines, delivery: Delivery) -> None:
    del m
    assert delivery.try_cancel()


def expired(m: Machines, delivery: Delivery) -> None:
    del delivery
    m.later(DELIVERY_TIMEOUT)


def closed(m: Machines, delivery: Delivery) -> None:
    del delivery
    m.settlement.abandon("closed", None, m.now)


@pytest.mark.parametrize("end", [purged, withdrawn, expired, closed])
def test_a_flush_ends_with_a_record_that_was_never_sent(end: Callable[[Machines, Delivery], None]) -> None:
    """Nobody leads the partition; what was buffered goes another way, and whoever waits for it is told, once."""
    m = Machines().introduced(-1)
    delivery = m.append()
    flush = m.accumulator.flush(m.now)
    assert m.flushed == []
    end(m, delivery)
    assert delivery.done()
    assert m.flushed == [flush]

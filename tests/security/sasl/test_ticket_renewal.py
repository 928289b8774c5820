"""The time at which the tickets of a key table are renewed."""

from __future__ import annotations

import math

from aioproducer.security.sasl.ticket_renewal import TicketRenewal


def test_after_half_of_their_life() -> None:
    """As the tickets last at the first use that is seen, and again for the next ones."""
    renewal = TicketRenewal()
    for begins, life in ((0.0, 36_000.0), (18_000.0, 100.0)):
        uses = [renewal.is_due(left, begins + life - left) for left in (life, life * 0.51, life * 0.5)]
        assert uses == [False, False, True]
        renewal.renewed()


def test_a_pause_after_a_failure() -> None:
    """The KDC is not asked at each authentication."""
    renewal = TicketRenewal()
    assert not renewal.is_due(100.0, 0.0)
    uses = [(50.0, 1000.0), (40.0, 1010.0), (21.0, 1029.0), (20.0, 1030.0), (10.0, 1040.0)]
    assert [renewal.is_due(*use) for use in uses] == [True, False, False, True, False]


def test_tickets_without_an_end() -> None:
    """They are not renewed."""
    renewal = TicketRenewal()
    assert not renewal.is_due(math.inf, 0.0)


def test_other_tickets_that_something_else_has_put_there() -> None:
    """They last longer than those before."""
    renewal = TicketRenewal()
    assert not renewal.is_due(60.0, 0.0)
    assert not renewal.is_due(100.0, 50.0)
    assert renewal.is_due(50.0, 100.0)

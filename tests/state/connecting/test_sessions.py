"""When an authenticated session ends."""

from __future__ import annotations

import math

import pytest

from aioproducer._state.connecting.sessions import AuthenticatedSession

granted = AuthenticatedSession.granted


def test_a_session_counts_from_the_last_request_of_the_authentication() -> None:
    """It is renewed after 85 to 95 % of its time, and nothing is written in its last second (KIP-368)."""
    session = granted("PLAIN", 100.0, 60_000)
    assert session.ends_at == 160.0
    assert session.last_write_at == 159.0
    assert [session.renew_at(chance) for chance in (0.0, 1.0)] == pytest.approx([150.15, 156.05])


def test_a_short_session_keeps_most_of_its_time() -> None:
    """The margin is a tenth of the lifetime at most, and the session is renewed before."""
    session = granted("PLAIN", 100.0, 400)
    assert session.last_write_at == pytest.approx(100.36)
    assert session.renew_at(1.0) < session.last_write_at


@pytest.mark.parametrize("lifetime_ms", [0, -1, -(2**63)])
def test_no_lifetime_is_no_limit(lifetime_ms: int) -> None:
    """0 says that sessions have no end; a negative number is taken for it (S44)."""
    session = granted("PLAIN", 100.0, lifetime_ms)
    assert session.ends_at == session.last_write_at == session.renew_at(0.0) == math.inf


def test_a_lifetime_is_a_year_at_most() -> None:
    """2**63 - 1 ms would not fit into a timer (S44)."""
    assert granted("PLAIN", 100.0, 2**63 - 1).lifetime == 365 * 86400.0

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
    session = granted("PLAIN", 100.0, 4_000)
    assert session.last_write_at == pytest.approx(103.6)
    assert session.renew_at(1.0) < session.last_write_at


def test_requests_that_wait_make_a_renewal_earlier() -> None:
    """A broker that reads requests late has to read those in flight before the end of the session."""
    session = granted("PLAIN", 100.0, 60_000)
    assert [session.renew_at(chance, 15.0) for chance in (0.0, 1.0)] == pytest.approx([137.4, 141.8])


@pytest.mark.parametrize(("lifetime_ms", "delay"), [(400, 0.0), (60_000, 58.0), (60_000, 600.0)])
def test_a_renewal_is_never_so_early_that_it_is_refused(lifetime_ms: int, delay: float) -> None:
    """Brokers refuse an authentication within a second of the former one."""
    assert granted("PLAIN", 100.0, lifetime_ms).renew_at(0.0, delay) == pytest.approx(101.1)


@pytest.mark.parametrize("lifetime_ms", [0, -1, -(2**63)])
def test_no_lifetime_is_no_limit(lifetime_ms: int) -> None:
    """0 says that sessions have no end; a negative number is taken for it (S44)."""
    session = granted("PLAIN", 100.0, lifetime_ms)
    assert session.ends_at == session.last_write_at == session.renew_at(0.0) == math.inf


def test_a_lifetime_is_a_year_at_most() -> None:
    """2**63 - 1 ms would not fit into a timer (S44)."""
    assert granted("PLAIN", 100.0, 2**63 - 1).lifetime == 365 * 86400.0

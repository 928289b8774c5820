"""The end of an authenticated session (KIP-368)."""

from __future__ import annotations

import math

import attrs

__all__ = ["AuthenticatedSession"]

# A lifetime of 2**63 - 1 ms would not fit into a timer.
_LONGEST = 365 * 86400.0
# A request that is written this long before the end arrives before it, also over a slow network.
_MARGIN = 1.0
# Brokers refuse an authentication that follows the former one within a second.
_LEAST_PAUSE = 1.1


@attrs.frozen
class AuthenticatedSession:
    """The session that a broker granted; times are those of the event loop, in seconds.

    The broker counts the lifetime from its receipt of the last SaslAuthenticate request. `began_at` is the time when that
    request was written, which is never later.
    """

    mechanism: str
    began_at: float
    lifetime: float = math.inf

    @classmethod
    def granted(cls, mechanism: str, began_at: float, lifetime_ms: int) -> AuthenticatedSession:
        """The session for this lifetime; 0, or a negative number, means no limit."""
        return cls(mechanism, began_at, min(lifetime_ms / 1000, _LONGEST) if lifetime_ms > 0 else math.inf)

    @property
    def has_end(self) -> bool:
        """Whether the broker limits the session."""
        return self.lifetime < math.inf

    @property
    def ends_at(self) -> float:
        """The end of the session: the broker closes the connection at the next request after it, without an answer."""
        return self.began_at + self.lifetime

    @property
    def last_write_at(self) -> float:
        """The latest time to write a request; the broker neither executes nor refuses one that arrives after the end."""
        return self.ends_at - min(_MARGIN, self.lifetime / 10) if self.lifetime < math.inf else math.inf

    def renew_at(self, chance: float, delay: float = 0.0) -> float:
        """The time of the next authentication, at 85 to 95 % of the time to write; `chance` (0 to 1) spreads connections.

        `delay`: so many seconds after it was written, a request was still not read. The requests in flight have to be read before
        the end as well, so it is that much earlier, but never so early that the broker refuses it.
        """
        to_write = self.last_write_at - delay - self.began_at
        return self.began_at + max(to_write * (0.85 + 0.1 * chance), _LEAST_PAUSE)

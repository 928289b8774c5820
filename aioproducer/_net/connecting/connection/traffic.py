"""Counters of connections, and of what goes over them."""

from __future__ import annotations

from aioproducer._state.buckets import Buckets
from aioproducer.stats import SECONDS_BOUNDS

__all__ = ["Traffic"]


class Traffic:
    """Connections to one broker, one after another: their requests, bytes and pauses."""

    __slots__ = (
        "authentication_failures",
        "authentications",
        "bytes_received",
        "bytes_sent",
        "connects",
        "failures",
        "reauthentications",
        "request_errors",
        "request_time",
        "requests",
        "throttle_longest",
        "throttle_requested",
        "throttle_seconds",
    )

    def __init__(self) -> None:
        self.connects = 0
        # Attempts that failed, and connections that this producer gave up.
        self.failures = 0
        self.requests = 0
        # Requests without a usable answer.
        self.request_errors = 0
        self.bytes_sent = 0
        self.bytes_received = 0
        # The pauses that the broker asked for.
        self.throttle_seconds = 0.0
        # The same, where pauses that overlap count each, and the longest since `take_longest_throttle()`.
        self.throttle_requested = 0.0
        self.throttle_longest = 0.0
        self.authentications = 0
        self.reauthentications = 0
        # Of both kinds.
        self.authentication_failures = 0
        self.request_time = Buckets(SECONDS_BOUNDS)

    def throttled(self, seconds: float, longer: float) -> None:
        """The broker asked for a pause of so many seconds, by `longer` more than the present one."""
        self.throttle_seconds += longer
        self.throttle_requested += seconds
        self.throttle_longest = max(self.throttle_longest, seconds)

    def take_longest_throttle(self) -> float:
        """The longest pause since the last call."""
        longest, self.throttle_longest = self.throttle_longest, 0.0
        return longest

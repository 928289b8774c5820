"""The next request to the broker about metrics, its time, and the meaning of each answer."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from aioproducer._state.telemetry.subscription import DEFAULT_INTERVAL, Subscription
from aioproducer._wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from aioproducer._wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse

NO_ID: Final = bytes(16)
# The subscription is requested at most so often, in seconds.
LEAST_PAUSE: Final = 1.0
# The first push comes after a part of the interval between these, so that clients that start together do not push together.
EARLIEST_PUSH, LATEST_PUSH = 0.5, 1.5

_OUTDATED: Final = frozenset((ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE))
_LATER: Final = frozenset((ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED))


class Move(enum.Enum):
    """A request about metrics."""

    ASK = "GetTelemetrySubscriptions"
    PUSH = "PushTelemetry"


@attrs.define
class Schedule:
    """The next request and its time: `move` at `at`; no more requests when `is_over`."""

    at: float
    move: Move = Move.ASK
    is_over: bool = False
    # The id that the cluster gave to this producer.
    client_instance_id: bytes = NO_ID
    subscription: Subscription | None = None
    _asked_at: float | None = None

    @property
    def interval(self) -> float:
        """Seconds between two requests."""
        return DEFAULT_INTERVAL if self.subscription is None else self.subscription.interval

    @property
    def owes_a_last_push(self) -> bool:
        """Whether the broker expects the metrics that are left when the producer closes."""
        return not self.is_over and self.subscription is not None and bool(self.subscription.prefixes)

    def asking(self, now: float) -> None:
        """GetTelemetrySubscriptions leaves."""
        self._asked_at = now

    def told(self, answer: GetTelemetrySubscriptionsResponse, now: float, random: float) -> bool:
        """An answer to GetTelemetrySubscriptions; `random` is from 0 to 1. True: other metrics are requested than before."""
        if answer.error_code:
            self.refused(answer.error_code, now)
            return False
        if answer.client_instance_id != NO_ID:
            self.client_instance_id = answer.client_instance_id
        former, self.subscription = self.subscription, Subscription.told_by(answer)
        if not self.subscription.prefixes:
            self._next(Move.ASK, now + self.interval)
        else:
            part = EARLIEST_PUSH + (LATEST_PUSH - EARLIEST_PUSH) * random
            self._next(Move.PUSH, now + self.interval * part)
        before = ((), 0.0) if former is None else (former.prefixes, former.interval)
        return bool(self.subscription.prefixes) and before != (
            self.subscription.prefixes,
            self.subscription.interval,
        )

    def pushed(self, code: int, now: float) -> bool:
        """An answer to PushTelemetry; False: the broker has not taken the metrics."""
        if code:
            self.refused(code, now)
            return False
        self.later(now)
        return True

    def refused(self, code: int, now: float) -> None:
        """An answer with an error."""
        if code in _OUTDATED:
            asked_at = now if self._asked_at is None else self._asked_at
            self._next(Move.ASK, max(now, asked_at + LEAST_PAUSE))
        elif code in _LATER:
            self.later(now)
        else:
            self.stop()

    def later(self, now: float) -> None:
        """The same request again after the interval: it was answered, or got no answer, or was not sent."""
        self.at = now + self.interval

    def stop(self) -> None:
        """No more telemetry of this producer."""
        self.is_over = True

    def _next(self, move: Move, at: float) -> None:
        self.move, self.at = move, at

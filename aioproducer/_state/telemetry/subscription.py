"""The subscription of a broker: the metrics by their prefixes, the interval, and the form of a push."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from aioproducer._codecs import CODEC_IDS

if TYPE_CHECKING:
    from aioproducer._wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse

DEFAULT_INTERVAL: Final = 300.0
# The shortest one that Kafka lets its operators set. A push takes up to 2 ms of the event loop.
LEAST_INTERVAL: Final = 0.1
# Alone, each of them stands for all metrics. Brokers send "*"; the protocol says "".
ALL_METRICS: Final = (("",), ("*",))
NO_COMPRESSION: Final = 0
# A line of the log names so many prefixes.
_NAMED: Final = 20


@attrs.frozen
class Subscription:
    """The answer of a broker; `interval` is in seconds, `codec` the number of a compression codec."""

    id: int
    prefixes: tuple[str, ...]
    interval: float = DEFAULT_INTERVAL
    codec: int = NO_COMPRESSION
    max_bytes: int = 1_048_576
    is_delta: bool = True

    @classmethod
    def told_by(cls, answer: GetTelemetrySubscriptionsResponse) -> Subscription:
        """The subscription in an answer without an error."""
        return cls(
            id=answer.subscription_id,
            prefixes=tuple(answer.requested_metrics),
            interval=interval_of(answer.push_interval_ms),
            codec=next(
                (one for one in answer.accepted_compression_types if one in CODEC_IDS), NO_COMPRESSION
            ),
            max_bytes=answer.telemetry_max_bytes,
            is_delta=answer.delta_temporality,
        )

    def wants(self, name: str) -> bool:
        """Whether a metric with this full name is requested."""
        return self.prefixes in ALL_METRICS or name.startswith(self.prefixes)

    def __str__(self) -> str:
        """The metrics and the interval, in words."""
        named = ", ".join(repr(prefix) for prefix in self.prefixes[:_NAMED])
        if len(self.prefixes) > _NAMED:
            named += f" and {len(self.prefixes) - _NAMED} more"
        return f"{'all metrics' if self.prefixes in ALL_METRICS else named} every {self.interval:g} s"


def interval_of(milliseconds: int) -> float:
    """The interval in seconds; one that cannot be is that of Kafka's default, and one that is too short the least."""
    return max(milliseconds / 1000, LEAST_INTERVAL) if milliseconds > 0 else DEFAULT_INTERVAL

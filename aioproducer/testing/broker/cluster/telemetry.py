"""The metrics that clients push: the subscription, the clients of each broker, and their pushes (KIP-714)."""

from __future__ import annotations

import math
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

import attrs

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.otlp import PushedMetric, PushedMetrics

DEFAULT_INTERVAL_MS: Final = 300_000
# Kafka itself takes 100 ms to an hour; clients must get along with any number.
_INTERVALS: Final = range(-(1 << 31), 1 << 31)
# zstd, lz4, gzip, snappy, as Kafka lists them.
COMPRESSION_TYPES: Final = (4, 3, 1, 2)
_KEPT_PUSHES: Final = 10_000
# After these refusals a client may ask before its interval is over.
_OUTDATED: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


@attrs.frozen
class Push:
    """One accepted push of a client."""

    instance_id: uuid.UUID
    client_id: str | None
    terminating: bool
    """The last push of a client that closes."""
    content: PushedMetrics
    broker: int
    compression_type: int
    """The number of the codec that the metrics came in; 0 for none."""

    @property
    def metrics(self) -> tuple[PushedMetric, ...]:
        """The values, in the order of the payload."""
        return self.content.metrics

    def values(self, name: str) -> list[float]:
        """The values of the metric with this name."""
        return [metric.value for metric in self.metrics if metric.name == name]


@attrs.frozen
class AskedFor:
    """The metrics that clients are asked for."""

    prefixes: tuple[str, ...] = ()
    interval_ms: int = DEFAULT_INTERVAL_MS

    @property
    def id(self) -> int:
        """The subscription id: another one for other metrics or another interval."""
        return zlib.crc32(repr((sorted(self.prefixes), self.interval_ms)).encode()) & 0x7FFFFFFF


@attrs.define
class Instance:
    """One client at one broker."""

    asked_at: float = -math.inf
    pushed_at: float = -math.inf
    has_ended: bool = False
    last_error: int = ErrorCode.NONE


@attrs.define(eq=False)
class ClientMetrics:
    """The receivers of all brokers; each broker knows only the clients that came to it."""

    clock: Callable[[], float]
    max_bytes: int
    _random: Random
    asked_for: AskedFor = AskedFor()
    pushes: deque[Push] = attrs.field(factory=lambda: deque(maxlen=_KEPT_PUSHES))
    _instances: dict[tuple[int, bytes], Instance] = attrs.Factory(dict)

    def subscribe(self, prefixes: Iterable[str], interval_ms: int) -> None:
        """Ask clients for these metrics from now on."""
        given = () if isinstance(prefixes, str) else tuple(prefixes)
        if isinstance(prefixes, str) or not all(isinstance(prefix, str) for prefix in given):
            raise ValueError("prefixes must be a sequence of strings")
        if type(interval_ms) is not int or interval_ms not in _INTERVALS:
            raise ValueError(f"interval_ms={interval_ms!r:.60}: must be a whole number of 32 bits")
        self.asked_for = AskedFor(given, interval_ms)

    def new_id(self) -> bytes:
        """The id of a client that has none."""
        return uuid.UUID(bytes=self._random.randbytes(16), version=4).bytes

    def asks(self, broker: int, instance_id: bytes) -> int:
        """A client asks for the subscription; the error of the answer, 0 for none."""
        known = self._instance(broker, instance_id)
        now = self.clock()
        since = now - max(known.asked_at, known.pushed_at)
        if self._is_early(since) and known.last_error not in _OUTDATED:
            return self._note(known, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        known.asked_at = now
        return self._note(known, ErrorCode.NONE)

    def pushes_now(
        self, broker: int, instance_id: bytes, *, subscription_id: int, codec: int, size: int, is_last: bool
    ) -> int:
        """A client pushes; the error of the answer, 0 for none."""
        known = self._instance(broker, instance_id)
        return self._note(
            known, self._refusal(known, instance_id, subscription_id, codec, size, is_last=is_last)
        )

    def _refusal(
        self,
        known: Instance,
        instance_id: bytes,
        subscription_id: int,
        codec: int,
        size: int,
        *,
        is_last: bool,
    ) -> int:
        if known.has_ended or not any(instance_id):
            return ErrorCode.INVALID_REQUEST
        now = self.clock()
        if known.asked_at <= known.pushed_at and self._is_early(now - known.pushed_at) and not is_last:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        known.pushed_at = now
        known.has_ended = is_last
        refusals = {
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID: subscription_id != self.asked_for.id,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: codec not in (0, *COMPRESSION_TYPES),
            ErrorCode.TELEMETRY_TOO_LARGE: size > self.max_bytes,
        }
        return next((code for code, applies in refusals.items() if applies), ErrorCode.NONE)

    def _instance(self, broker: int, instance_id: bytes) -> Instance:
        return self._instances.setdefault((broker, instance_id), Instance())

    def _is_early(self, seconds: float) -> bool:
        # The clock of a test has fractions that do not add up exactly.
        return seconds < self.asked_for.interval_ms / 1000 - 1e-6

    def _note(self, known: Instance, error: int) -> int:
        known.last_error = error
        return error

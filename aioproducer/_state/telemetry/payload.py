"""The bytes of a push: written, compressed, and not longer than the broker takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aioproducer._codecs import compress
from aioproducer._state.telemetry.subscription import NO_COMPRESSION, Subscription
from aioproducer._wire.otlp import Attributes, Metric, metrics_data

__all__ = ["Payload", "payload_of"]


class Payload(NamedTuple):
    """The content of a push; `has_registered`: the metrics of the application are in it."""

    compression_type: int
    data: bytes
    has_registered: bool


def payload_of(
    subscription: Subscription,
    resource: Attributes,
    scope: tuple[str, str],
    standard: Sequence[Metric],
    registered: Sequence[Metric],
) -> Payload | None:
    """The metrics as they are pushed, without those of the application where all are too long; None if even that is too long."""
    for metrics in ((*standard, *registered), standard) if registered else (standard,):
        plain = metrics_data(resource, scope, metrics)
        codec = subscription.codec if plain else NO_COMPRESSION
        data = compress(plain, codec)
        if len(data) <= subscription.max_bytes:
            return Payload(codec, data, metrics is not standard)
    return None

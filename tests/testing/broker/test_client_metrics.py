"""The embedded Kafka as a receiver of client metrics: subscriptions, and refusals as Kafka makes them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing import EmbeddedKafka
from aioproducer.testing.broker.cluster.telemetry import ClientMetrics

BROKER = 1


class Clock:
    """A time that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> ClientMetrics:
    """A receiver that asks for everything each ten seconds."""
    made = ClientMetrics(clock, 100, Random(1))
    made.subscribe(["*"], 10_000)
    return made


def push(metrics: ClientMetrics, instance: bytes, **facts: Any) -> int:
    told = {"subscription_id": metrics.asked_for.id, "codec": 4, "size": 10, "is_last": False}
    return metrics.pushes_now(BROKER, instance, **{**told, **facts})


def test_a_client_that_keeps_the_interval(metrics: ClientMetrics, clock: Clock) -> None:
    """It asks once and pushes each interval; the first push may come at any time."""
    instance = metrics.new_id()
    assert metrics.asks(BROKER, instance) == 0
    for _ in range(3):
        assert push(metrics, instance) == 0
        clock.now += 10
    assert push(metrics, instance, is_last=True) == 0
    assert push(metrics, instance) == ErrorCode.INVALID_REQUEST


def test_a_client_that_comes_too_early(metrics: ClientMetrics, clock: Clock) -> None:
    """It is refused, unless it says goodbye."""
    instance = metrics.new_id()
    assert metrics.asks(BROKER, instance) == 0
    clock.now += 9.9
    assert metrics.asks(BROKER, instance) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(metrics, instance) == 0
    clock.now += 9.9
    assert push(metrics, instance) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(metrics, instance, is_last=True) == 0


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ({"subscription_id": 5}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"codec": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"size": 101}, ErrorCode.TELEMETRY_TOO_LARGE),
    ],
)
def test_pushes_that_are_refused(metrics: ClientMetrics, facts: dict[str, Any], error: int) -> None:
    """After the first two the client may ask for the subscription at once."""
    instance = metrics.new_id()
    assert metrics.asks(BROKER, instance) == 0
    assert push(metrics, instance, **facts) == error
    expected = 0 if error != ErrorCode.TELEMETRY_TOO_LARGE else ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert metrics.asks(BROKER, instance) == expected


def test_the_id_of_zeros_cannot_push(metrics: ClientMetrics) -> None:
    """It belongs to no client."""
    assert push(metrics, bytes(16)) == ErrorCode.INVALID_REQUEST


def test_another_subscription_has_another_id(metrics: ClientMetrics) -> None:
    """The id says which metrics at which interval; the same ones have the same id."""
    former = metrics.asked_for.id
    metrics.subscribe(["a"], 10_000)
    assert metrics.asked_for.id != former
    metrics.subscribe(("*",), 10_000)
    assert metrics.asked_for.id == former


@pytest.mark.parametrize(
    ("prefixes", "interval"), [("*", 1000), ([1], 1000), (["*"], 1 << 31), (["*"], True), (["*"], 1.5)]
)
def test_subscriptions_that_cannot_be(prefixes: Sequence[str], interval: Any) -> None:
    """Prefixes are a sequence of strings, and the interval is a number of 32 bits."""
    with pytest.raises(ValueError, match="must be"):
        EmbeddedKafka(telemetry=True).subscribe_metrics(prefixes, interval)


def test_a_cluster_without_a_receiver() -> None:
    """It can ask for nothing."""
    with pytest.raises(ValueError, match="telemetry=True"):
        EmbeddedKafka().subscribe_metrics(["*"], 1000)

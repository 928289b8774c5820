"""The bytes of a push, and pushes that are longer than the broker takes."""

from __future__ import annotations

import pytest

from aioproducer._codecs import decompress
from aioproducer._state.telemetry.payload import payload_of
from aioproducer._state.telemetry.subscription import Subscription
from aioproducer._wire.otlp import Metric, Point
from aioproducer.testing.broker.otlp import read_metrics

SCOPE = ("aioproducer", "1")
STANDARD = [Metric("org.apache.kafka.producer.record.send.total", "sum", [Point(1, 1, 2)])]
REGISTERED = [Metric("mine", "gauge", [Point(1.0, 1, 2)])]


def subscription(max_bytes: int = 10_000, codec: int = 0) -> Subscription:
    return Subscription(1, ("*",), codec=codec, max_bytes=max_bytes)


def size_of(metrics: list[Metric]) -> int:
    payload = payload_of(subscription(), (), SCOPE, metrics, [])
    assert payload is not None
    return len(payload.data)


@pytest.mark.parametrize("codec", range(5))
def test_the_metrics_are_compressed(codec: int) -> None:
    """With each codec that a broker may ask for, as the records of batches are."""
    payload = payload_of(subscription(codec=codec), (("client_rack", "a"),), SCOPE, STANDARD, REGISTERED)
    assert payload is not None
    assert (payload.compression_type, payload.has_registered) == (codec, True)
    content = read_metrics(decompress(payload.data, codec))
    assert [metric.name for metric in content.metrics] == [STANDARD[0].name, "mine"]
    assert (content.resource, content.scopes) == ({"client_rack": "a"}, (SCOPE,))


def test_too_long_pushes() -> None:
    """First the metrics of the application are left out, then nothing is pushed."""
    whole, standard = size_of([*STANDARD, *REGISTERED]), size_of(STANDARD)
    made = [payload_of(subscription(size), (), SCOPE, STANDARD, REGISTERED) for size in (whole, whole - 1)]
    assert [each is not None and each.has_registered for each in made] == [True, False]
    assert made[1] is not None
    assert len(made[1].data) == standard
    assert payload_of(subscription(standard - 1), (), SCOPE, STANDARD, REGISTERED) is None
    assert payload_of(subscription(standard - 1), (), SCOPE, STANDARD, []) is None


def test_nothing_to_push() -> None:
    """A push without metrics is empty, and not compressed: the broker learns that the producer is there."""
    assert payload_of(subscription(0, codec=4), (), SCOPE, [], []) == (0, b"", False)

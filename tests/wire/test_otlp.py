"""OTLP metrics as they are written, read by the classes of OpenTelemetry and by the reader of the embedded Kafka."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    MetricsData,
)

from aioproducer._wire.otlp import Attributes, Metric, Point, fits, metrics_data
from aioproducer.testing.broker.otlp import PushedMetric, read_metrics

START, END = 1_700_000_000_000_000_000, 1_700_000_060_123_456_789
RESOURCE: Attributes = (("transactional_id", "orders-1"), ("client_rack", "é"))
SCOPE = ("aioproducer", "1.2.3")


def read(data: bytes) -> MetricsData:
    """The message as OpenTelemetry's own classes read it."""
    message = MetricsData()
    assert message.ParseFromString(data) == len(data)
    return message


def any_value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


def test_classes_of_opentelemetry_read_what_is_written() -> None:
    """Resource, scope, kinds, temporality, times, values and attributes arrive as they were given."""
    attributes: Attributes = (
        ("topic", "t" * 300),
        ("whole", -7),
        ("half", 0.5),
        ("is", True),
        ("not", False),
    )
    metrics = [
        Metric("a.gauge", "gauge", [Point(2.5, START, END, attributes), Point(0.0, START, END)]),
        Metric("a.sum", "sum", [Point(12, START, END)], is_delta=True),
        Metric("a.total", "sum", [Point(2**63 - 1, START, END), Point(-(2**63), START, END)]),
    ]
    (resource,) = read(metrics_data(RESOURCE, SCOPE, metrics)).resource_metrics
    assert [(each.key, any_value(each.value)) for each in resource.resource.attributes] == list(RESOURCE)
    (scope,) = resource.scope_metrics
    assert (scope.scope.name, scope.scope.version) == SCOPE
    gauge, delta, total = scope.metrics
    assert [each.name for each in scope.metrics] == ["a.gauge", "a.sum", "a.total"]
    assert [each.WhichOneof("data") for each in scope.metrics] == ["gauge", "sum", "sum"]
    first, second = gauge.gauge.data_points
    assert (first.as_double, second.as_double) == (2.5, 0.0)
    assert (first.start_time_unix_nano, first.time_unix_nano) == (START, END)
    assert [(each.key, any_value(each.value)) for each in first.attributes] == list(attributes)
    assert [point.as_int for point in total.sum.data_points] == [2**63 - 1, -(2**63)]
    assert delta.sum.data_points[0].WhichOneof("value") == "as_int"
    assert (delta.sum.is_monotonic, total.sum.is_monotonic) == (True, True)
    assert delta.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_DELTA
    assert total.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE


def test_nothing_is_written_without_a_metric() -> None:
    """A push without metrics has no bytes."""
    assert metrics_data(RESOURCE, SCOPE, []) == b""


_VALUES = st.one_of(st.text(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
_ATTRIBUTES = st.dictionaries(st.text(min_size=1), _VALUES, max_size=4)
_NUMBERS = st.one_of(st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1))
_TIMES = st.integers(0, 2**64 - 1)


@given(name=st.text(), number=_NUMBERS, attributes=_ATTRIBUTES, time=_TIMES, is_delta=st.booleans())
def test_any_value_arrives(
    name: str, number: float, attributes: dict[str, Any], time: int, is_delta: bool
) -> None:
    """Any number, text and time is read as it was written, by two readers that do not know each other."""
    point = Point(number, time, time, list(attributes.items()))
    data = metrics_data((), SCOPE, [Metric(name, "sum", [point], is_delta)])
    (metric,) = read(data).resource_metrics[0].scope_metrics[0].metrics
    (found,) = metric.sum.data_points
    assert metric.name == name
    assert getattr(found, found.WhichOneof("value") or "") == number
    assert {each.key: any_value(each.value) for each in found.attributes} == attributes
    assert read_metrics(data).metrics == (
        PushedMetric(name, "sum", number, attributes, is_delta, True, time, time),
    )


@pytest.mark.parametrize(("number", "can"), [(2**63 - 1, True), (2**63, False), (-(2**63), True)])
def test_integers_have_64_bits(number: int, can: bool) -> None:
    """Integers of more than 64 bits are recognized before they are written."""
    assert fits(number) is can


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\x05ab", b"\x0b", b"\xff" * 11, b"\x0a\x02\x12\x05"])
def test_damaged_bytes_are_refused(data: bytes) -> None:
    """The embedded Kafka reads no payload that is cut or is no protobuf."""
    with pytest.raises(ValueError, match="protobuf"):
        read_metrics(data)

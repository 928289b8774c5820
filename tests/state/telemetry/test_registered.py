"""The metrics of the application: what may be registered, and what of it is pushed."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import pytest

from aioproducer import ConfigurationError
from aioproducer._state.telemetry.registered import (
    RegisteredMetric,
    RegisteredMetrics,
    complaint_about,
)
from aioproducer._wire.otlp import Point


class Unreadable(Mapping[str, str]):
    """A mapping whose keys cannot be listed."""

    def __getitem__(self, key: str) -> str:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no")

    def __len__(self) -> int:
        return 1


class Incomparable:
    """An object that is compared with nothing, as arrays of numpy are."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("no")


def zero() -> float:
    return 0


async def coroutine() -> float:
    return 0


@pytest.mark.parametrize(
    "name", ["a", "a1_b", "orders.open", "a.1", "org.apache.kafkaesque", "a._", "a" * 255]
)
def test_names_that_can_be(name: str) -> None:
    """A name has parts of small letters, digits and underscores."""
    RegisteredMetrics().register(name, zero, "gauge", None)


@pytest.mark.parametrize(
    "name",
    [
        "", "A", "1a", "_a", ".a", "a.", "a..b", "a-b", "a b", "é", "a\n", "a" * 256, None, b"a", 7,
        "org.apache.kafka.producer.x", "org.apache.kafka",
    ],
)  # fmt: skip
def test_names_that_cannot_be(name: object) -> None:
    """Names of another form, and those of Kafka's own metrics, are refused, also by unregister_metric()."""
    metrics = RegisteredMetrics()
    with pytest.raises(ConfigurationError, match="cannot be the name of a metric"):
        metrics.register(name, zero, "gauge", None)
    with pytest.raises(ConfigurationError, match="cannot be the name of a metric"):
        metrics.unregister(name)


@pytest.mark.parametrize(
    ("read", "kind", "attributes", "problem"),
    [
        (1, "gauge", None, "read must be a function"),
        (coroutine, "gauge", None, "read must be a function"),
        (zero, "counter", None, "must be one of 'gauge', 'sum'"),
        (zero, ["sum"], None, "must be one of 'gauge', 'sum'"),
        (zero, "sum", [("a", 1)], "must be a mapping"),
        (zero, "sum", {1: 1}, "must be a string"),
        (zero, "sum", {"": 1}, "must be a string"),
        (zero, "sum", {"a": None}, "must be a string, a bool, or a number"),
        (zero, "sum", {"a": b"x"}, "must be a string, a bool, or a number"),
        (zero, "sum", {"a": 2**63}, "must be a string, a bool, or a number"),
        (zero, "sum", {"a": "\ud800"}, "must be a string, a bool, or a number"),
        (zero, "sum", {"\ud800": 1}, "the name of an attribute must be a string"),
        (zero, Incomparable(), None, "must be one of 'gauge', 'sum'"),
        (zero, "sum", UserDict(a=Incomparable()), "must be a string, a bool, or a number"),
        (zero, "sum", Unreadable(), "attributes cannot be read"),
    ],
)
def test_what_cannot_be_registered(read: Any, kind: Any, attributes: Any, problem: str) -> None:
    """The error names the metric and the fix."""
    with pytest.raises(ConfigurationError, match=problem):
        RegisteredMetrics().register("a.b", read, kind, attributes)


def test_a_metric_is_replaced_and_removed() -> None:
    """One metric of a name; removing one that is not there does nothing."""
    metrics = RegisteredMetrics()
    metrics.register("a", zero, "gauge", None)
    metrics.register("a", zero, "sum", {"x": 1})
    (metric,) = metrics.wanted(lambda _: True)
    assert (metric.kind, metric.attributes) == ("sum", (("x", 1),))
    assert metrics.wanted(lambda name: name != "a") == []
    metrics.unregister("a")
    metrics.unregister("a")
    assert metrics.wanted(lambda _: True) == []


def pushed(metric: RegisteredMetric, value: object, *, is_delta: bool = True, now_ns: int = 30) -> Point:
    """The point of the next push."""
    metric.begin()
    return metric.point(value, 10, 20, now_ns, is_delta=is_delta)


def test_a_gauge_is_a_double() -> None:
    """Of the interval that ends now."""
    metric = RegisteredMetric("a", zero, "gauge", (("x", 1),))
    point = pushed(metric, 7)
    assert (point, type(point.value)) == (Point(7.0, 20, 30, (("x", 1),)), float)


def test_a_sum_is_a_difference_or_a_total() -> None:
    """A float is cut to a whole number, so that the sum of all differences stays that of the counter."""
    metric = RegisteredMetric("a", zero, "sum")
    assert [pushed(metric, value).value for value in (5, 5.9, 8)] == [5, 0, 3]
    assert pushed(metric, 9, is_delta=False) == Point(9, 10, 30)


def test_a_sum_that_goes_back_begins_again() -> None:
    """That value is left out; its later growth is pushed, and a total counts from there on."""
    metric = RegisteredMetric("a", zero, "sum")
    pushed(metric, 10)
    with pytest.raises(ValueError, match="a sum cannot go back: it was 10, then 4"):
        pushed(metric, 4, now_ns=40)
    assert pushed(metric, 6).value == 2
    assert pushed(metric, 7, is_delta=False, now_ns=50) == Point(7, 40, 50)
    assert pushed(metric, 8, is_delta=False, now_ns=30) == Point(8, 30, 30), "the wall clock was set back"


@pytest.mark.parametrize("is_unregistered", [False, True])
def test_a_sum_that_is_registered_again_goes_on(is_unregistered: bool) -> None:
    """Its name begins where the former one ended, so that nothing is pushed twice; a refused push is repeated by the new one."""
    metrics = RegisteredMetrics()

    def registered(attributes: Mapping[str, str] | None = None, kind: str = "sum") -> RegisteredMetric:
        if is_unregistered:
            metrics.unregister("a")
        metrics.register("a", zero, kind, attributes)
        (metric,) = metrics.wanted(lambda _: True)
        return metric

    def pushed(metric: RegisteredMetric, value: int) -> float:
        return metric.point(value, 1, 2, 3, is_delta=True).value

    assert pushed(registered(), 5) == 5
    assert pushed(registered(), 7) == 2
    metrics.refused()
    assert pushed(registered(), 8) == 3
    with pytest.raises(ValueError, match="a sum cannot go back: it was 8, then 1"):
        pushed(registered(), 1)
    assert registered().point(4, 1, 2, 9, is_delta=False) == Point(4, 3, 9)
    # Other attributes make another sum, as another kind does.
    assert pushed(registered({"b": "c"}), 6) == 6
    assert pushed(registered(None, "gauge"), 6) == 6
    assert pushed(registered(), 6) == 6


def test_sums_that_were_unregistered_are_bounded() -> None:
    """A program that gives each sum another name does not fill its memory."""
    metrics = RegisteredMetrics()
    for number in range(300):
        metrics.register(f"a{number}", zero, "sum", None)
        metrics.unregister(f"a{number}")
    assert len(metrics._unregistered) == 100


def test_a_refused_push_of_a_sum() -> None:
    """Its difference is pushed with the next; one that the broker took is not."""
    metrics = RegisteredMetrics()
    metrics.register("a", zero, "sum", None)

    def push(value: object) -> float:
        (metric,) = metrics.wanted(lambda _: True)
        return metric.point(value, 10, 20, 30, is_delta=True).value

    assert push(3) == 3
    assert push(5) == 2
    metrics.refused()
    metrics.refused()
    assert push(6) == 3
    with pytest.raises(ValueError, match="must return a number"):
        push(None)
    metrics.refused()
    assert push(7) == 1


@pytest.mark.parametrize("value", [None, "1", True, 1j, [1], coroutine, Decimal(1)])
def test_what_is_no_number(value: object) -> None:
    """It is left out."""
    with pytest.raises(ValueError, match="must return a number"):
        pushed(RegisteredMetric("a", zero, "gauge"), value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite(value: float) -> None:
    """It is left out."""
    with pytest.raises(ValueError, match="finite"):
        pushed(RegisteredMetric("a", zero, "gauge"), value)


@pytest.mark.parametrize("value", [-1, -0.5 - 1, 2**63, 1e300])
def test_sums_out_of_range(value: float) -> None:
    """A sum is a number of 63 bits."""
    with pytest.raises(ValueError, match="a sum must be from 0"):
        pushed(RegisteredMetric("a", zero, "sum"), value)


def test_numbers_of_other_types() -> None:
    """Whatever Python counts among the real numbers is one."""
    from fractions import Fraction

    assert pushed(RegisteredMetric("a", zero, "gauge"), Fraction(1, 2)).value == 0.5
    assert pushed(RegisteredMetric("a", zero, "sum"), Fraction(5, 2)).value == 2


def test_slow_functions() -> None:
    """One that takes 10 ms is left out; 9 ms are no fault. Each metric is complained about once."""
    assert complaint_about(0.009) is None
    assert complaint_about(0.010) == "read() took 10 ms in the event loop; 10 ms are too much"
    metric = RegisteredMetric("a", zero, "gauge")
    assert [metric.is_first_complaint() for _ in range(3)] == [True, False, False]

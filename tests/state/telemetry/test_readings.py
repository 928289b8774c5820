"""The standard metrics of an interval, from two readings of the counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aioproducer._state.telemetry.readings import (
    PREFIX,
    Interval,
    Ledger,
    Measured,
    Reading,
    TopicReading,
    metrics_of,
)
from aioproducer._wire.otlp import Metric

START_NS, BEFORE_NS, AFTER_NS = 1_000, 2_000, 3_000


def before(**facts: Any) -> Reading:
    return Reading(at=100.0, wall_ns=BEFORE_NS, **facts)


def after(**facts: Any) -> Reading:
    return Reading(at=110.0, wall_ns=AFTER_NS, **facts)


def everything(_name: str) -> bool:
    return True


def found(
    interval: Interval, *, is_delta: bool = True, wants: Callable[[str], bool] = everything
) -> dict[str, Metric]:
    metrics = metrics_of(interval, Reading(at=90.0, wall_ns=START_NS), is_delta=is_delta, wants=wants)
    return {metric.name.removeprefix(PREFIX): metric for metric in metrics}


def values(interval: Interval, *, is_delta: bool = True) -> dict[str, list[float]]:
    metrics = found(interval, is_delta=is_delta)
    return {name: [point.value for point in metric.points] for name, metric in metrics.items()}


def test_averages_and_maxima_are_of_the_interval() -> None:
    """Times are in milliseconds; values before the interval do not count."""
    interval = Interval(
        before(queue_time=Measured(2, 10.0), batch_size=Measured(1, 900.0), throttle=Measured(5, 1.0)),
        after(
            queue_time=Measured(4, 10.5, 0.4),
            request_time=Measured(1, 0.25, 0.25),
            batch_size=Measured(3, 1100.0, 150.0),
            throttle=Measured(9, 3.0, 1.5),
            compression=Measured(2, 0.5, 0.4),
        ),
    )
    assert {
        name: value for name, (value,) in values(interval).items() if name.endswith((".avg", ".max"))
    } == {
        "record.queue.time.avg": 250.0,
        "record.queue.time.max": 400.0,
        "request.latency.avg": 250.0,
        "request.latency.max": 250.0,
        "batch.size.avg": 100.0,
        "batch.size.max": 150.0,
        "produce.throttle.time.avg": 500.0,
        "produce.throttle.time.max": 1500.0,
        "compression.rate.avg": 0.25,
    }


def test_what_has_no_value_is_left_out() -> None:
    """Averages and maxima without a value in the interval are left out; a zero is pushed."""
    same = Measured(2, 10.0, None)
    interval = Interval(
        before(queue_time=same, nodes={"1": same}, connects=1),
        after(queue_time=same, nodes={"1": same}, connects=1),
    )
    assert values(interval) == {
        "connection.creation.rate": [0.0],
        "requests.in.flight": [0.0],
        "waiting.threads": [0.0],
        "buffer.available.bytes": [0.0],
        "connection.creation.total": [0],
        "record.send.total": [0],
        "record.error.total": [0],
        "record.retry.total": [0],
        "bufferpool.wait.time.ns.total": [0],
    }


def test_each_broker_has_its_latency() -> None:
    """The attribute names the broker as the Java client does."""
    interval = Interval(
        before(nodes={"1": Measured(1, 1.0)}),
        after(nodes={"1": Measured(2, 1.5, 0.5), "2": Measured(2, 0.4, 0.3), "3": Measured()}),
    )
    metrics = found(interval)
    average, largest = metrics["node.request.latency.avg"], metrics["node.request.latency.max"]
    assert [(point.attributes, point.value) for point in average.points] == [
        ((("node_id", "node-1"),), 500.0),
        ((("node_id", "node-2"),), 200.0),
    ]
    assert [point.value for point in largest.points] == [500.0, 300.0]


def test_sums_are_differences_or_totals() -> None:
    """Where the broker wants differences, a sum has that of the interval; else the total since the start."""
    counters: dict[str, Any] = {"connects": 3, "sent": 10, "failed": 2, "retried": 5, "memory_wait": 1.5}
    interval = Interval(
        before(**dict.fromkeys(counters, 1), topics={"a": TopicReading(4, 1, 100)}),
        after(**counters, topics={"a": TopicReading(6, 1, 150), "b": TopicReading(3, 0, 30)}),
    )
    expected = {
        "connection.creation.total": ([2], [3]),
        "record.send.total": ([9], [10]),
        "record.error.total": ([1], [2]),
        "record.retry.total": ([4], [5]),
        "bufferpool.wait.time.ns.total": ([500_000_000], [1_500_000_000]),
        "topic.record.send.total": ([2, 3], [6, 3]),
        "topic.record.error.total": ([0, 0], [1, 0]),
        "topic.byte.total": ([50, 30], [150, 30]),
    }
    for is_delta in (True, False):
        metrics = found(interval, is_delta=is_delta)
        sums = {name: metric for name, metric in metrics.items() if metric.kind == "sum"}
        told = {name: [point.value for point in metric.points] for name, metric in sums.items()}
        assert told == {name: pair[not is_delta] for name, pair in expected.items()}
        assert {metric.is_delta for metric in sums.values()} == {is_delta}
        points = [point for metric in sums.values() for point in metric.points]
        assert {point.started_ns for point in points} == {BEFORE_NS if is_delta else START_NS}
        assert {point.ended_ns for point in points} == {AFTER_NS}
        assert all(type(point.value) is int for point in points)
    assert [point.attributes for point in found(interval)["topic.byte.total"].points] == [
        (("topic", "a"),),
        (("topic", "b"),),
    ]


def test_gauges_are_doubles() -> None:
    """A gauge is a double, also where the value is a whole number."""
    interval = Interval(before(), after(in_flight=3, waiting_calls=2, available_bytes=10, metadata_age=7))
    gauges = [metric for metric in found(interval).values() if metric.kind == "gauge"]
    assert {"metadata.age", "requests.in.flight"} <= {gauge.name.removeprefix(PREFIX) for gauge in gauges}
    assert all(type(point.value) is float for gauge in gauges for point in gauge.points)


def test_only_the_requested_metrics_are_made() -> None:
    """The others are not even computed."""
    interval = Interval(before(), after(topics={"a": TopicReading(1, 1, 1)}))
    wanted = f"{PREFIX}record."
    assert found(interval, wants=lambda name: name.startswith(wanted)).keys() == {
        "record.send.total",
        "record.error.total",
        "record.retry.total",
    }


def test_a_rate_needs_time() -> None:
    """Two readings at the same time have no rate."""
    moment = before(connects=1)
    assert "connection.creation.rate" not in values(Interval(before(), moment))
    assert values(Interval(before(), after(connects=5)))["connection.creation.rate"] == [0.5]


# -- the ledger


def test_an_interval_begins_where_the_last_one_ended() -> None:
    """Without a refusal nothing is pushed twice."""
    ledger = Ledger(before())
    first, second = after(), after(sent=5)
    assert ledger.interval(first) == (before(), first)
    assert ledger.interval(second) == (first, second)


@pytest.mark.parametrize("later", [0.1, 0.9, None])
def test_a_refused_interval_is_a_part_of_the_next(later: float | None) -> None:
    """Its counts and its largest values are pushed with the next one, also behind several refusals."""
    ledger = Ledger(before())
    ledger.interval(after(queue_time=Measured(1, 0.5, 0.5), nodes={"1": Measured(1, 0.5, 0.5)}, sent=1))
    ledger.refused()
    ledger.interval(after(queue_time=Measured(1, 0.5, None), nodes={"1": Measured(1, 0.5)}, sent=1))
    ledger.refused()
    last = after(
        queue_time=Measured(2, 0.6, later), nodes={"1": Measured(2, 0.6, later), "2": Measured()}, sent=2
    )
    interval = ledger.interval(last)
    assert interval.before == before()
    assert interval.after.queue_time.largest == max(0.5, later or 0.0)
    assert interval.after.nodes["1"].largest == max(0.5, later or 0.0)
    assert values(interval)["record.send.total"] == [2]
    assert ledger.interval(after(sent=3)).before == interval.after


def test_a_refusal_without_a_push_changes_nothing() -> None:
    """Only the interval that was made last can be refused, once."""
    ledger = Ledger(before())
    ledger.refused()
    first = after(sent=1)
    ledger.interval(first)
    ledger.refused()
    ledger.refused()
    assert ledger.interval(after(sent=2)).before == before()


@pytest.mark.parametrize("back", [0, 3600, 10**10])
def test_sums_since_the_start_beside_a_clock_that_is_set_back(back: int) -> None:
    """The start is as long ago as it was; the least time of a point is 0."""
    second = 10**9
    start = Reading(at=90.0, wall_ns=5000 * second)
    later = Reading(at=110.0, wall_ns=(5020 - back) * second if back < 5000 else second)
    known = start.before(later)
    assert later.wall_ns - known.wall_ns == min(20 * second, later.wall_ns)
    assert (known.at, known.before(later)) == (start.at, known)

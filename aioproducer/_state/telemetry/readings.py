"""The standard metrics of an interval, as differences of two readings of the producer's counters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import attrs

from aioproducer._wire.otlp import Attributes, Metric, Point

PREFIX: Final = "org.apache.kafka.producer."


class Measured(NamedTuple):
    """A histogram at one moment: number and sum of all its values, and the largest since the former reading."""

    number: int = 0
    total: float = 0.0
    largest: float | None = None


NOTHING: Final = Measured()


class TopicReading(NamedTuple):
    """The counters of a topic at one moment."""

    sent: int = 0
    failed: int = 0
    bytes: int = 0


@attrs.frozen(kw_only=True)
class Reading:
    """The counters of a producer at one moment; times in seconds. Without values it is the moment of its start."""

    at: float
    wall_ns: int
    connects: int = 0
    nodes: Mapping[str, Measured] = attrs.Factory(dict)
    throttle: Measured = NOTHING
    queue_time: Measured = NOTHING
    request_time: Measured = NOTHING
    batch_size: Measured = NOTHING
    compression: Measured = NOTHING
    sent: int = 0
    failed: int = 0
    retried: int = 0
    memory_wait: float = 0.0
    topics: Mapping[str, TopicReading] = attrs.Factory(dict)
    # One object for each topic: it is written once for all metrics.
    topic_attributes: Mapping[str, Attributes] = attrs.field(init=False, repr=False, eq=False)
    in_flight: int = 0
    metadata_age: float | None = None
    waiting_calls: int = 0
    available_bytes: int = 0

    @topic_attributes.default
    def _attributes_of_topics(self) -> Mapping[str, Attributes]:
        return {topic: (("topic", topic),) for topic in self.topics}

    def before(self, later: Reading) -> Reading:
        """The same reading, at a time of the wall clock that is not after the later one: the clock may have been set back."""
        if self.wall_ns <= later.wall_ns:
            return self
        return attrs.evolve(self, wall_ns=max(0, later.wall_ns - round((later.at - self.at) * 1e9)))

    def with_largest_of(self, former: Reading) -> Reading:
        """The same reading, where `former` was not taken: its largest values count as well."""
        return attrs.evolve(
            self,
            nodes={node: _joined(measured, former.nodes.get(node)) for node, measured in self.nodes.items()},
            throttle=_joined(self.throttle, former.throttle),
            queue_time=_joined(self.queue_time, former.queue_time),
            request_time=_joined(self.request_time, former.request_time),
            batch_size=_joined(self.batch_size, former.batch_size),
        )


def _joined(later: Measured, former: Measured | None) -> Measured:
    found = [each.largest for each in (later, former) if each is not None and each.largest is not None]
    return later._replace(largest=max(found, default=None))


class Interval(NamedTuple):
    """The time since the former push that the broker took."""

    before: Reading
    after: Reading


@attrs.define
class Ledger:
    """The reading that the next interval begins with: that of the last push, unless the broker refused it."""

    base: Reading
    _former: Reading | None = None
    _refused: Reading | None = None

    def interval(self, reading: Reading) -> Interval:
        """The interval that ends with this reading. It counts as pushed until `refused()`: nothing is pushed twice."""
        if self._refused is not None:
            reading, self._refused = reading.with_largest_of(self._refused), None
        self._former, self.base = self.base.before(reading), reading
        return Interval(self._former, reading)

    def refused(self) -> None:
        """The broker has not taken the last interval: the next one includes it."""
        if self._former is not None:
            self._refused, self.base, self._former = self.base, self._former, None


def metrics_of(
    interval: Interval, at_start: Reading, *, is_delta: bool, wants: Callable[[str], bool]
) -> Iterator[Metric]:
    """The requested standard metrics; a gauge without a value in the interval is left out.

    Where the broker wants no differences, a sum counts from the start of the producer on.
    """
    before, after = interval
    since = before if is_delta else at_start
    for name, value_of in GAUGES.items():
        if wants(name) and (value := value_of(before, after)) is not None:
            yield Metric(name, "gauge", (Point(float(value), before.wall_ns, after.wall_ns),))
    for name, latency_of in NODE_GAUGES.items():
        if wants(name) and (points := list(_by_node(latency_of, before, after))):
            yield Metric(name, "gauge", points)
    for name, total_of in SUMS.items():
        if wants(name):
            value = total_of(after) - total_of(since)
            yield Metric(name, "sum", (Point(value, since.wall_ns, after.wall_ns),), is_delta)
    for name, at in TOPIC_SUMS.items():
        if wants(name) and after.topics:
            yield Metric(name, "sum", list(_by_topic(at, since, after)), is_delta)


def _by_node(
    value_of: Callable[[Measured, Measured], float | None], before: Reading, after: Reading
) -> Iterator[Point]:
    for node, measured in after.nodes.items():
        value = value_of(before.nodes.get(node, NOTHING), measured)
        if value is not None:
            yield Point(value, before.wall_ns, after.wall_ns, (("node_id", f"node-{node}"),))


def _by_topic(at: int, since: Reading, after: Reading) -> Iterator[Point]:
    none, former, attributes = TopicReading(), since.topics, after.topic_attributes
    since_ns, ended_ns = since.wall_ns, after.wall_ns
    for topic, counts in after.topics.items():
        yield Point(counts[at] - former.get(topic, none)[at], since_ns, ended_ns, attributes[topic])


def _average(before: Measured, after: Measured, scale: float = 1.0) -> float | None:
    """None: there was no value in the interval."""
    number = after.number - before.number
    return scale * (after.total - before.total) / number if number > 0 else None


def _largest(before: Measured, after: Measured, scale: float = 1.0) -> float | None:
    return None if after.number <= before.number or after.largest is None else scale * after.largest


def _average_ms(before: Measured, after: Measured) -> float | None:
    return _average(before, after, 1000.0)


def _largest_ms(before: Measured, after: Measured) -> float | None:
    return _largest(before, after, 1000.0)


def _connection_rate(before: Reading, after: Reading) -> float | None:
    seconds = after.at - before.at
    return (after.connects - before.connects) / seconds if seconds > 0 else None


def _named(table: Mapping[str, Callable[..., float | None]]) -> Mapping[str, Callable[..., float | None]]:
    return MappingProxyType({PREFIX + name: value_of for name, value_of in table.items()})


GAUGES: Final[Mapping[str, Callable[[Reading, Reading], float | None]]] = _named(
    {
        "connection.creation.rate": _connection_rate,
        "produce.throttle.time.avg": lambda before, after: _average_ms(before.throttle, after.throttle),
        "produce.throttle.time.max": lambda before, after: _largest_ms(before.throttle, after.throttle),
        "record.queue.time.avg": lambda before, after: _average_ms(before.queue_time, after.queue_time),
        "record.queue.time.max": lambda before, after: _largest_ms(before.queue_time, after.queue_time),
        "request.latency.avg": lambda before, after: _average_ms(before.request_time, after.request_time),
        "request.latency.max": lambda before, after: _largest_ms(before.request_time, after.request_time),
        "batch.size.avg": lambda before, after: _average(before.batch_size, after.batch_size),
        "batch.size.max": lambda before, after: _largest(before.batch_size, after.batch_size),
        "compression.rate.avg": lambda before, after: _average(before.compression, after.compression),
        "requests.in.flight": lambda _, after: after.in_flight,
        "metadata.age": lambda _, after: after.metadata_age,
        "waiting.threads": lambda _, after: after.waiting_calls,
        "buffer.available.bytes": lambda _, after: after.available_bytes,
    }
)
NODE_GAUGES: Final[Mapping[str, Callable[[Measured, Measured], float | None]]] = _named(
    {"node.request.latency.avg": _average_ms, "node.request.latency.max": _largest_ms}
)
SUMS: Final[Mapping[str, Callable[[Reading], int]]] = MappingProxyType(
    {
        PREFIX + "connection.creation.total": lambda reading: reading.connects,
        PREFIX + "record.send.total": lambda reading: reading.sent,
        PREFIX + "record.error.total": lambda reading: reading.failed,
        PREFIX + "record.retry.total": lambda reading: reading.retried,
        PREFIX + "bufferpool.wait.time.ns.total": lambda reading: round(reading.memory_wait * 1e9),
    }
)
# The places of the counters in `TopicReading`.
TOPIC_SUMS: Final[Mapping[str, int]] = MappingProxyType(
    {
        PREFIX + "topic.record.send.total": 0,
        PREFIX + "topic.record.error.total": 1,
        PREFIX + "topic.byte.total": 2,
    }
)

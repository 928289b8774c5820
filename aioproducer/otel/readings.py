"""The counters and gauges that are read from the statistics of producers when metrics are collected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from aioproducer.otel import names
from aioproducer.otel.facts import server_of
from aioproducer.stats import Health, Stats

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable, Collection, Iterable, Iterator

    from aioproducer.otel.facts import Attributes
    from aioproducer.producer import Producer
    from aioproducer.stats import ConnectionStats, TopicStats

    Value = tuple[Attributes, float]

OTHER_TOPICS = "_other"


class Topics:
    """The topics that have a name in metrics."""

    def __init__(self, shown: bool | Collection[str], most: int) -> None:
        self._wanted = None if shown is True else frozenset(shown or ())
        self._most = most
        # In the order in which they were seen: a topic that was shown once always is.
        self._shown: dict[str, None] = {}

    def name_of(self, topic: str) -> str:
        """The topic, or the name of all topics that are not shown."""
        if topic in self._shown:
            return topic
        if len(self._shown) >= self._most or (self._wanted is not None and topic not in self._wanted):
            return OTHER_TOPICS
        self._shown[topic] = None
        return topic


class Snapshot(NamedTuple):
    """One producer at the time of a collection."""

    client_id: str
    stats: Stats
    health: Health


class Reading(NamedTuple):
    """One metric: `read` gives its values, and `joined` makes one of two with equal attributes."""

    name: str
    unit: str
    text: str
    read: Callable[[Snapshot], Iterable[Value]]
    is_gauge: bool = False
    joined: Callable[[float, float], float] = lambda one, other: one + other


def snapshots_of(producers: Iterable[weakref.ref[Producer[Any, Any]]]) -> list[Snapshot]:
    """All producers that still exist."""
    found = (reference() for reference in producers)
    return [Snapshot(p.config.client_id, p.stats(), p.health()) for p in found if p is not None]


def observed(
    reading: Reading, taken: Iterable[tuple[Iterable[Snapshot], Topics]]
) -> dict[tuple[tuple[str, Any], ...], float]:
    """The values of a metric by their attributes, of all snapshots, each with the topics that are shown of it."""
    values: dict[tuple[tuple[str, Any], ...], float] = {}
    for snapshot, topics in ((snapshot, topics) for snapshots, topics in taken for snapshot in snapshots):
        for found, value in reading.read(snapshot):
            attributes = {names.CLIENT_ID: snapshot.client_id, **found}
            if names.DESTINATION in attributes:
                attributes[names.DESTINATION] = topics.name_of(str(attributes[names.DESTINATION]))
            key = tuple(attributes.items())
            values[key] = reading.joined(values[key], value) if key in values else value
    return values


# -- the parts of a snapshot


def _of_producer(field: str) -> Callable[[Snapshot], Iterator[Value]]:
    def read(snapshot: Snapshot) -> Iterator[Value]:
        value = getattr(snapshot.stats, field)
        if value is not None:
            yield {}, value

    return read


def _of_health(field: str) -> Callable[[Snapshot], Iterator[Value]]:
    def read(snapshot: Snapshot) -> Iterator[Value]:
        value = getattr(snapshot.health, field)
        if value is not None:
            yield {}, float(value)

    return read


def _of_topics(field: Callable[[TopicStats], float]) -> Callable[[Snapshot], Iterator[Value]]:
    def read(snapshot: Snapshot) -> Iterator[Value]:
        for topic, stats in snapshot.stats.topics.items():
            yield {names.DESTINATION: topic}, field(stats)

    return read


def _of_brokers(field: Callable[[ConnectionStats], float]) -> Callable[[Snapshot], Iterator[Value]]:
    def read(snapshot: Snapshot) -> Iterator[Value]:
        for connection in snapshot.stats.connections:
            yield server_of(connection.address), field(connection)

    return read


def _failures(snapshot: Snapshot) -> Iterator[Value]:
    for failure in snapshot.stats.failures:
        attributes: Attributes = {
            names.DESTINATION: failure.topic,
            names.ERROR_TYPE: failure.error,
            names.OUTCOME: failure.outcome.name.lower(),
        }
        yield attributes, failure.records


def _dead_letters(snapshot: Snapshot) -> Iterator[Value]:
    for topic, count in snapshot.stats.dead_letters.items():
        yield {names.DESTINATION: topic}, count


def _transactions(snapshot: Snapshot) -> Iterator[Value]:
    transactions = snapshot.stats.transactions
    for outcome in ("committed", "aborted", "unknown"):
        yield {names.OUTCOME: outcome}, getattr(transactions, outcome)


def _counter(name: str, unit: str, text: str, read: Callable[[Snapshot], Iterable[Value]]) -> Reading:
    return Reading(f"{names.SCOPE}.{name}", unit, text, read)


def _gauge(
    name: str,
    unit: str,
    text: str,
    read: Callable[[Snapshot], Iterable[Value]],
    joined: Callable[[float, float], float] = lambda one, other: one + other,
) -> Reading:
    return Reading(f"{names.SCOPE}.{name}", unit, text, read, is_gauge=True, joined=joined)


READINGS = (
    _counter("records.accepted", "{record}", "Records accepted", _of_producer("records_accepted")),
    _counter("accepted.bytes", "By", "Bytes of accepted records", _of_producer("bytes_accepted")),
    _counter("records.acked", "{record}", "Records written", _of_topics(lambda topic: topic.records_acked)),
    _counter("acked.bytes", "By", "Bytes of written records", _of_topics(lambda topic: topic.bytes_acked)),
    _counter(
        "records.retried", "{record}", "Records sent again", _of_topics(lambda topic: topic.records_retried)
    ),
    _counter("batches", "{batch}", "Attempts to write a batch", _of_topics(lambda topic: topic.batches)),
    _counter("records.failed", "{record}", "Records that failed", _failures),
    _counter("dead.letters", "{record}", "Records set aside", _dead_letters),
    _counter("batches.split", "{batch}", "Batches split as too large", _of_producer("batches_split")),
    _counter(
        "suspected.data.losses",
        "{loss}",
        "Offsets that went back",
        _of_producer("suspected_data_losses"),
    ),
    _counter("memory.waits", "{call}", "Calls that waited for memory", _of_producer("memory_waits")),
    _counter("memory.wait.seconds", "s", "Waits for memory", _of_producer("memory_wait_seconds")),
    _counter("metadata.waits", "{call}", "Calls that waited for metadata", _of_producer("metadata_waits")),
    _counter("metadata.wait.seconds", "s", "Waits for metadata", _of_producer("metadata_wait_seconds")),
    _counter("loop.stalls", "{stall}", "Stalls of the event loop", _of_producer("loop_stalls")),
    _counter(
        "loop.stall.seconds", "s", "Time of stalls of the event loop", _of_producer("loop_stall_seconds")
    ),
    _counter("requests", "{request}", "Requests", _of_brokers(lambda broker: broker.requests)),
    _counter(
        "request.errors",
        "{request}",
        "Requests without a usable answer",
        _of_brokers(lambda broker: broker.request_errors),
    ),
    _counter("sent.bytes", "By", "Bytes sent", _of_brokers(lambda broker: broker.bytes_sent)),
    _counter("received.bytes", "By", "Bytes received", _of_brokers(lambda broker: broker.bytes_received)),
    _counter(
        "throttle.seconds",
        "s",
        "Pauses that brokers asked for",
        _of_brokers(lambda broker: broker.throttle_seconds),
    ),
    _counter("connects", "{connection}", "Connections opened", _of_brokers(lambda broker: broker.connects)),
    _counter(
        "connect.failures",
        "{connection}",
        "Connections that failed",
        _of_brokers(lambda broker: broker.failures),
    ),
    _counter("transactions", "{transaction}", "Transactions that ended", _transactions),
    _gauge("buffered.records", "{record}", "Records buffered", _of_producer("records_buffered")),
    _gauge("buffered.bytes", "By", "Bytes buffered", _of_producer("bytes_buffered")),
    _gauge("buffer.memory.bytes", "By", "Limit of the buffered bytes", _of_producer("buffer_memory")),
    _gauge("in.flight.records", "{record}", "Records in flight", _of_producer("records_in_flight")),
    _gauge("in.flight.bytes", "By", "Bytes in flight", _of_producer("bytes_in_flight")),
    _gauge("waiting.calls", "{call}", "Calls that wait to be accepted", _of_producer("waiting_calls")),
    _gauge(
        "oldest.unacked.seconds",
        "s",
        "Age of the oldest record without an outcome",
        _of_producer("oldest_unacked_seconds"),
        max,
    ),
    _gauge(
        "seconds.since.last.ack",
        "s",
        "Time since a record was written",
        _of_health("seconds_since_last_ack"),
        max,
    ),
    _gauge("metadata.age.seconds", "s", "Age of the metadata", _of_producer("metadata_age_seconds"), max),
    _gauge("ready", "1", "1 if the producer is ready", _of_health("ready"), min),
    _gauge("live", "1", "1 if the producer is live", _of_health("live"), min),
    _gauge(
        "requests.in.flight",
        "{request}",
        "Requests without an answer",
        _of_brokers(lambda broker: broker.requests_in_flight),
    ),
    _gauge(
        "connection.up",
        "1",
        "1 if a connection to the broker is open",
        _of_brokers(lambda broker: float(broker.state in ("connected", "throttled"))),
        max,
    ),
)

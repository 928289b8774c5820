"""OpenTelemetry's metrics, read by the SDK's reader in memory, against the statistics and what the embedded Kafka got."""

from __future__ import annotations

import asyncio
import gc
import re
import weakref
from typing import Any

import opentelemetry.metrics
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Metric
from opentelemetry.util._once import Once

import aioproducer.otel.metrics
from aioproducer import KafkaError, Producer
from aioproducer._metrics.producers import MOST_FORMER_CLIENTS, ClientReading
from aioproducer._metrics.readings import Counts, Key
from aioproducer.otel import Metrics
from aioproducer.otel.readings import values_of
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import until, warm

CLIENT = "messaging.client.id"
TOPIC = "messaging.destination.name"
CANARY = "canary-4711"


class Reader:
    """OpenTelemetry's SDK, with a reader in memory."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader])

    def metrics(self) -> dict[str, Metric]:
        """The metrics of one collection, by their names."""
        data = self._reader.get_metrics_data()
        if data is None:
            return {}
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        assert {scope.scope.name for scope in scopes} == {"aioproducer"}
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def values(self, name: str) -> dict[tuple[tuple[str, Any], ...], Any]:
        """The values of a metric by their attributes, but for the client; of a histogram its count."""
        metric = self.metrics().get(name)
        return {
            tuple(pair for pair in (point.attributes or {}).items() if pair[0] != CLIENT): getattr(
                point, "value", getattr(point, "count", None)
            )
            for point in ([] if metric is None else metric.data.data_points)
        }

    def total(self, name: str) -> Any:
        """The sum of all values of a metric."""
        return sum(self.values(name).values())

    async def messages(self, count: int) -> None:
        """Wait until so many are counted."""
        await until(lambda: self.total("messaging.client.sent.messages") == count)


@pytest.fixture
def reader() -> Reader:
    """An SDK of its own."""
    return Reader()


async def test_counters_agree_with_the_statistics(make: Make, kafka: EmbeddedKafka, reader: Reader) -> None:
    """Each record is counted once, with its topic, its error and its outcome; retries are not failures."""
    producer = await warm(make(linger_ms=0, retry_backoff_ms=1))
    metrics = Metrics(producer, meter_provider=reader.provider)
    kafka.faults.error("NOT_ENOUGH_REPLICAS", times=1)
    for topic in ("one", "one", "four"):
        await producer.send_and_wait(topic, CANARY.encode(), key=CANARY.encode(), headers={CANARY: b""})
    kafka.faults.error("INVALID_RECORD", times=1)
    with pytest.raises(KafkaError):
        await producer.send_and_wait("one", CANARY.encode())
    await until(lambda: reader.total("messaging.client.sent.messages") == 4)
    assert reader.values("aioproducer.records.acked") == {((TOPIC, "one"),): 2, ((TOPIC, "four"),): 1}
    assert reader.values("aioproducer.records.failed") == {
        ((TOPIC, "one"), ("error.type", "INVALID_RECORD"), ("aioproducer.outcome", "not_written")): 1
    }
    assert reader.total("aioproducer.records.retried") == 1
    stats = producer.stats()
    assert reader.total("aioproducer.records.accepted") == stats.records_accepted == 4
    assert reader.total("aioproducer.batches") == stats.batches
    assert reader.total("aioproducer.requests") == sum(each.requests for each in stats.connections)
    assert reader.values("aioproducer.ready") == reader.values("aioproducer.live") == {(): 1}
    assert reader.values("aioproducer.buffer.memory.bytes") == {(): producer.config.buffer_memory}
    found = reader.metrics()
    assert CANARY not in "".join(metric.to_json() for metric in found.values())
    assert {metric.unit for metric in found.values()} >= {"{record}", "By", "s", "1"}
    metrics.close()
    await producer.send_and_wait("one", b"")
    assert set(reader.metrics()) == {"messaging.client.sent.messages", "messaging.client.operation.duration"}
    assert reader.total("messaging.client.sent.messages") == 4


async def test_the_metrics_of_the_convention(make: Make, kafka: EmbeddedKafka, reader: Reader) -> None:
    """Messages, and the time of each batch from its write to its answer, in the convention's buckets."""
    producer = make(linger_ms=10_000)
    Metrics(producer, meter_provider=reader.provider)
    await warm(producer)
    for _ in range(3):
        await producer.send("one", b"")
    await producer.flush()
    kafka.faults.delay(times=None)
    for _ in range(2):
        await producer.send("one", b"")
    flushing = asyncio.create_task(producer.flush())
    await until(lambda: producer.stats().records_in_flight)
    flushing.cancel()
    await producer.close(timeout=0)
    server = producer.config.bootstrap_servers[0]
    common = (
        ("messaging.system", "kafka"),
        ("messaging.operation.name", "send"),
        ("messaging.operation.type", "send"),
        (TOPIC, "one"),
        ("server.address", server.host),
        ("server.port", server.port),
    )
    failed = (*common, ("error.type", "DeliveryError"))
    assert reader.values("messaging.client.sent.messages") == {common: 3, failed: 2}
    assert reader.values("messaging.client.operation.duration") == {common: 1, failed: 1}
    duration = reader.metrics()["messaging.client.operation.duration"]
    assert duration.unit == "s"
    point: Any = duration.data.data_points[0]
    assert point.explicit_bounds == (
        0.005,
        0.01,
        0.025,
        0.05,
        0.075,
        0.1,
        0.25,
        0.5,
        0.75,
        1.0,
        2.5,
        5.0,
        7.5,
        10.0,
    )


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, {"one", "four"}),
        ({"topics": False}, {"_other"}),
        ({"topics": ["four"]}, {"_other", "four"}),
        ({"max_topics": 1}, {"one", "_other"}),
    ],
)
async def test_the_topics_that_are_shown(make: Make, reader: Reader, options: Any, shown: set[str]) -> None:
    """All others are summed as `_other`."""
    producer = await warm(make())
    Metrics(producer, meter_provider=reader.provider, **options)
    for topic in ("one", "four"):
        await producer.send_and_wait(topic, b"")
    await until(lambda: reader.total("messaging.client.sent.messages") == 2)
    for name in ("aioproducer.records.acked", "messaging.client.sent.messages"):
        assert {dict(attributes)[TOPIC] for attributes in reader.values(name)} == shown
        assert reader.total(name) == 2


@pytest.mark.parametrize("together", [True, False])
async def test_producers_with_one_client_id(make: Make, reader: Reader, together: bool) -> None:
    """They are summed; `ready` is the least."""
    first, second = await warm(make()), make()
    if together:
        Metrics(first, second, meter_provider=reader.provider)
    else:
        for producer in (first, second):
            Metrics(producer, meter_provider=reader.provider)
    await first.send_and_wait("one", b"")
    assert reader.values("aioproducer.ready") == {(): 0}
    await warm(second)
    await second.send_and_wait("one", b"")
    assert reader.values("aioproducer.records.acked") == {((TOPIC, "one"),): 2}
    assert reader.values("aioproducer.ready") == {(): 1}


def test_a_producer_is_held_weakly(reader: Reader) -> None:
    """The gauges of a producer that the program drops are observed no more. Its counters stay."""
    producer = Producer("localhost:9092")
    metrics = Metrics(producer, meter_provider=reader.provider)
    assert reader.total("aioproducer.live") == 1
    gone = weakref.ref(producer)
    del producer
    gc.collect()
    assert gone() is None
    found = set(reader.metrics())
    assert "aioproducer.records.accepted" in found
    assert not found & {"aioproducer.live", "aioproducer.ready", "aioproducer.buffer.memory.bytes"}
    metrics.close()


async def test_closing_takes_no_counter_back(make: Make, reader: Reader) -> None:
    """The counters of the moment stay in the sums of its client id, which another `Metrics` shows."""
    first, second = await warm(make()), await warm(make())
    closing, other = (Metrics(one, meter_provider=reader.provider) for one in (first, second))
    for producer in (first, first, second):
        await producer.send_and_wait("one", b"")
    assert reader.total("aioproducer.records.acked") == 3
    for _ in range(2):
        closing.close()
        assert reader.total("aioproducer.records.acked") == 3
    await first.send_and_wait("one", b"")
    await second.send_and_wait("one", b"")
    await until(lambda: reader.total("messaging.client.sent.messages") == 4)
    assert reader.total("aioproducer.records.acked") == 4
    other.close()
    assert "aioproducer.records.acked" not in reader.metrics()
    again = Metrics(second, meter_provider=reader.provider)
    assert reader.total("aioproducer.records.acked") == 4
    again.close()


def test_closing_after_the_end_of_a_producer(reader: Reader) -> None:
    """Nothing is observed any more; another `Metrics` with its client id shows its counters."""
    producer, other = Producer("localhost:9092"), Producer("localhost:9092")
    metrics, shared = (Metrics(one, meter_provider=reader.provider) for one in (producer, other))
    del producer
    gc.collect()
    metrics.close()
    assert reader.values("aioproducer.records.accepted") == {(): 0}
    shared.close()
    assert reader.metrics() == {}


async def test_a_producer_in_several_is_counted_once(make: Make, reader: Reader) -> None:
    """Under one provider, until the last of them is closed; each other provider has its own counts."""
    producer, elsewhere = await warm(make()), Reader()
    several = [Metrics(producer, producer, meter_provider=reader.provider) for _ in range(2)]
    Metrics(producer, meter_provider=elsewhere.provider)
    for count in (1, 2):
        await producer.send_and_wait("one", b"")
        for one in (reader, elsewhere):
            await one.messages(count)
            assert one.total("aioproducer.records.acked") == count
        several.pop().close()
    await producer.send_and_wait("one", b"")
    await elsewhere.messages(3)
    assert reader.total("messaging.client.sent.messages") == 2
    assert "aioproducer.records.acked" not in reader.metrics()


@pytest.fixture
def no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that has not set its meter provider yet."""
    internal: Any = opentelemetry.metrics._internal
    monkeypatch.setattr(internal, "_METER_PROVIDER", None)
    monkeypatch.setattr(internal, "_METER_PROVIDER_SET_ONCE", Once())
    monkeypatch.setattr(internal, "_PROXY_METER_PROVIDER", internal._ProxyMeterProvider())
    monkeypatch.setattr(aioproducer.otel.metrics, "_observables_of_program", [])


@pytest.mark.usefixtures("no_provider")
@pytest.mark.parametrize("named", ["none", "before", "before, by the name", "after", "the placeholder"])
async def test_a_provider_that_is_set_later(make: Make, reader: Reader, named: str) -> None:
    """`Metrics` that were made before, with the provider or without it, and those of later count each producer once."""
    first, second = await warm(make()), await warm(make())
    placeholder = opentelemetry.metrics.get_meter_provider()
    made = []
    if named != "before, by the name":
        made.append(Metrics(first))
    if named.startswith("before"):
        made.append(Metrics(second, meter_provider=reader.provider))
        made.append(Metrics(first, meter_provider=reader.provider))
    opentelemetry.metrics.set_meter_provider(reader.provider)
    made.append(Metrics(second))
    if named == "after":
        made.append(Metrics(first, second, meter_provider=reader.provider))
    if named == "the placeholder":
        made.append(Metrics(second, first, meter_provider=placeholder))
    for count in (2, 4, 6):
        for producer in (first, second):
            await producer.send_and_wait("one", b"")
        await reader.messages(count)
        assert reader.total("aioproducer.records.acked") == count
    for one in made:
        one.close()
    assert "aioproducer.records.acked" not in reader.metrics()


@pytest.mark.usefixtures("no_provider")
def test_a_producer_that_is_gone_before_its_provider_is_set(reader: Reader) -> None:
    """Its counters are in the sums, as those of all former producers."""
    producer = Producer("localhost:9092", client_id="former")
    made = [Metrics(producer), Metrics(meter_provider=reader.provider)]
    del producer
    gc.collect()
    opentelemetry.metrics.set_meter_provider(reader.provider)
    assert reader.values("aioproducer.records.accepted") == {(): 0}
    for one in made:
        one.close()
    assert reader.metrics() == {}


def test_the_names() -> None:
    """Each counter and gauge has a name of its own, of the form that the convention asks for."""
    from aioproducer.otel.readings import OBSERVED, name_of

    names = [name_of(metric) for metric in OBSERVED]
    assert len(set(names)) == len(names) == 37
    assert all(re.fullmatch(r"aioproducer(\.[a-z]+)+", name) for name in names)


def test_the_brokers_of_former_clients_are_bounded() -> None:
    """A program whose producers have a new client id each keeps the addresses of the newest; those on the page stay."""

    def of(client_id: str) -> ClientReading:
        gauges: dict[Key, float] = {("connection_up", ("1", "kafka:9092")): 1.0}
        return ClientReading(client_id, Counts({("requests", ("1",)): 7}), gauges, ())

    places: dict[str, dict[str, str]] = {}
    for number in range(MOST_FORMER_CLIENTS + 100):
        values = values_of([of("kept"), of(f"client-{number}")], places)
        assert len(values["requests"]) == 2
    assert len(places) == MOST_FORMER_CLIENTS + 2
    assert places["kept"] == {"1": "kafka:9092"}
    assert "client-0" not in places

"""Settings that change how records are sent."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from aioproducer import ConfigurationError, Outcome, Producer
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import until, values, warm

PLAIN = {"enable_idempotence": False}


@pytest.mark.parametrize("acks", [0, 1, -1, "0", "1", "all", "-1"])
async def test_acks(make: Make, kafka: EmbeddedKafka, acks: Any) -> None:
    """Records are written with every kind of acks; with 0 the offset is unknown."""
    producer = await warm(make(acks=acks, **PLAIN))
    deliveries = [await producer.send("one", b"%d" % i) for i in range(10)]
    report = await producer.flush()
    metadata = [delivery.result() for delivery in deliveries]
    unknown = str(acks) == "0"
    assert report.acked == 10
    assert [one.offset for one in metadata] == ([-1] * 10 if unknown else list(range(10)))
    assert {one.has_offset for one in metadata} == {not unknown}
    await until(lambda: len(values(kafka)) == 10)
    assert values(kafka) == [b"%d" % i for i in range(10)]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("size", [10, 200_000])
async def test_compression(make: Make, kafka: EmbeddedKafka, compression: str, size: int) -> None:
    """Every codec works, for batches small and large, and the order is kept."""
    producer = await warm(make(compression_type=compression))
    for i in range(20):
        await producer.send("one", b"%d " % i + bytes(size // 20))
    await producer.flush()
    assert [int((value or b"").split(b" ")[0]) for value in values(kafka)] == list(range(20))
    used = {record.compression for record in kafka.records("one")}
    if size > 1000:
        assert (used == {0}) is (compression == "none")


async def test_compression_that_does_not_help(make: Make, kafka: EmbeddedKafka) -> None:
    """Batches that compression makes larger are sent uncompressed."""
    noise = random.Random(1).randbytes(5000)
    producer = await warm(make(compression_type="gzip"))
    await producer.send_and_wait("one", noise)
    (record,) = kafka.records("one")
    assert (record.value, record.compression) == (noise, 0)


@pytest.mark.parametrize(
    "settings",
    [{"acks": 1}, {"acks": 0}, {"retries": 0}, {"max_in_flight_requests_per_connection": 6}],
)
def test_conflict_with_idempotence(settings: dict[str, Any]) -> None:
    """A setting that idempotence excludes is a ConfigurationError that names the way out."""
    with pytest.raises(ConfigurationError, match="enable_idempotence"):
        Producer("localhost:9092", **settings)


def test_all_problems_at_once() -> None:
    """One error lists all problems, with the nearest name for each unknown setting."""
    unknown: dict[str, Any] = {"linger_mss": 5, "acks": "some", "batch_size": -1}
    with pytest.raises(ConfigurationError) as caught:
        Producer("localhost:notaport", **unknown)
    assert len(caught.value.problems) == 4
    assert all(word in str(caught.value) for word in ("linger_ms", "acks", "batch_size", "notaport"))


@pytest.mark.parametrize(
    "servers",
    [
        "",
        [],
        "localhost",
        "localhost:",
        "localhost:0",
        "localhost:99999",
        "http://localhost:9092",
        "a:1,,b",
        None,
        7,
    ],
)
def test_bad_bootstrap_servers(servers: Any) -> None:
    """Invalid servers are a ConfigurationError that names the setting."""
    with pytest.raises(ConfigurationError, match="bootstrap_servers"):
        Producer(servers)


@pytest.mark.parametrize(
    "given",
    [
        {"transaction_two_phase_commit_enable": True},
    ],
)
def test_what_is_not_built_yet(given: dict[str, Any]) -> None:
    """Commits in two phases are refused, not ignored."""
    with pytest.raises(ConfigurationError, match=next(iter(given))):
        Producer("localhost:9092", **given)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"transactional_id": ""}, "transactional_id='': must be a printable string"),
        ({"transactional_id": "x", "enable_idempotence": False}, "transactional_id requires idempotence"),
        ({"transaction_timeout_ms": 1_000}, "requires transactional_id"),
    ],
)
def test_transactions_that_cannot_be(given: dict[str, Any], line: str) -> None:
    """The error lists the settings that a transaction needs."""
    with pytest.raises(ConfigurationError, match=line):
        Producer("localhost:9092", **given)


async def test_batch_size_zero(make: Make, kafka: EmbeddedKafka) -> None:
    """batch_size=0 sends each record alone."""
    producer = await warm(make(batch_size=0))
    for i in range(5):
        await producer.send("one", b"%d" % i)
    await producer.flush()
    counts = [batch.count for request in kafka.requests for batch in request.batches]
    assert counts == [1] * 5
    assert values(kafka) == [b"%d" % i for i in range(5)]


async def test_max_request_size(make: Make, kafka: EmbeddedKafka) -> None:
    """No request is larger than max_request_size."""
    producer = await warm(make(max_request_size=5000, batch_size=4000, linger_ms=10_000))
    for i in range(40):
        await producer.send("four", bytes(500), partition=i % 4)
    await producer.flush()
    sizes = [sum(batch.size for batch in request.batches) for request in kafka.requests]
    assert 0 < max(sizes) <= 5000


async def test_one_request_in_flight(make: Make, kafka: EmbeddedKafka) -> None:
    """With max_in_flight_requests_per_connection=1 the second request waits for the first answer."""
    producer = await warm(make(max_in_flight_requests_per_connection=1, batch_size=0, linger_ms=0))
    hold = kafka.faults.delay(times=None)
    first = await producer.send("one", b"0")
    await hold.reached()
    second = await producer.send("one", b"1")
    assert await second.wait(0.03) is Outcome.PENDING
    assert hold.hits == 1
    hold.heal()
    await asyncio.gather(first, second)


async def test_without_idempotence_there_is_no_producer_id(make: Make, kafka: EmbeddedKafka) -> None:
    """enable_idempotence=False requests no producer id and sends none."""
    producer = await warm(make(**PLAIN))
    await producer.send_and_wait("one", b"v")
    assert [request.api for request in kafka.requests if request.api == "InitProducerId"] == []
    assert kafka.records("one")[0].producer_id == -1


async def test_idempotence_is_on(producer: Producer, kafka: EmbeddedKafka) -> None:
    """By default records carry a producer id and sequences that count up."""
    for _ in range(3):
        await producer.send_and_wait("one", b"v")
    records = kafka.records("one")
    assert [record.sequence for record in records] == [0, 1, 2]
    assert len({record.producer_id for record in records} - {-1}) == 1


async def test_client_id(make: Make, kafka: EmbeddedKafka) -> None:
    """client_id is in every request."""
    producer = await warm(make(client_id="orders-7"))
    await producer.send_and_wait("one", b"v")
    assert {request.client_id for request in kafka.requests} == {"orders-7"}


@pytest.mark.parametrize("version", [3, 7, 8, 9, 11, 12, 13])
async def test_older_brokers(make: Make, kafka: EmbeddedKafka, version: int) -> None:
    """Records reach brokers that speak older versions of Produce."""
    kafka.limit_version("Produce", 3, version)
    producer = await warm(make())
    assert (await producer.send_and_wait("one", b"v", headers={"a": b"b"})).offset == 0
    assert max(request.version for request in kafka.requests if request.api == "Produce") == version


async def test_partitioner_ignore_keys(make: Make) -> None:
    """With partitioner_ignore_keys records with keys stay together like those without."""
    producer = await warm(make(partitioner_ignore_keys=True))
    deliveries = [await producer.send("four", b"v", key=b"%d" % i) for i in range(50)]
    await producer.flush()
    assert len({delivery.partition for delivery in deliveries}) == 1

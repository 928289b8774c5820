"""`EmbeddedKafka` itself: its lifecycle, its topics, and the state that it shows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from aioproducer.testing import EmbeddedKafka, SeenBatch, StoredRecord
from aioproducer.testing.broker.faults import code_of
from aioproducer.testing.broker.logs.records import NewRecord, write_batch
from tests.contract.batches import plain, sequenced
from tests.contract.client import WireClient


async def test_records_show_all_that_was_written(kafka: EmbeddedKafka, client: WireClient) -> None:
    """The log shows every field of a record, with its place and its producer."""
    records = [NewRecord(b"v", b"k", 1000, (("h", b"1"), ("h", None))), NewRecord(None, None, 1003)]
    batch = write_batch(records, producer_id=6, epoch=2, sequence=40, compression=1)
    await client.produce("t", batch, partition=1)
    assert (
        kafka.records("t")
        == kafka.records("t", 1)
        == [
            StoredRecord("t", 1, 0, 1000, b"k", b"v", (("h", b"1"), ("h", None)), 6, 2, 40, 1),
            StoredRecord("t", 1, 1, 1003, None, None, (), 6, 2, 41, 1),
        ]
    )
    assert kafka.records("t", 0) == []


async def test_the_history_shows_what_was_asked(kafka: EmbeddedKafka, client: WireClient) -> None:
    """A request shows its broker, API, version, batch identities, a readable line, and the reason of a refusal."""
    producer_id = await client.new_producer()
    kafka.forget_requests()
    await client.produce("t", sequenced(producer_id, 3, 2), version=11)
    await client.produce("t", sequenced(producer_id, 9), version=11)
    first, second = kafka.requests
    assert (first.broker, first.api, first.version, first.client_id) == (1, "Produce", 11, "contract")
    assert [type(batch) for batch in first.batches] == [SeenBatch]
    assert (first.batches[0].base_sequence, first.batches[0].count) == (3, 2)
    size = first.batches[0].size
    assert first.summary == f"Produce v11 t-0 pid {producer_id} epoch 0 sequence 3+2 ({size} bytes)"
    assert "9 (incoming sequence number), 5 (expected)" in second.refusals[0]


async def test_the_history_is_bounded() -> None:
    """Only the newest requests are kept."""
    async with EmbeddedKafka(history=3) as kafka, WireClient(kafka.bootstrap_servers) as client:
        for version in range(1, 9):
            await client.ask(MetadataRequest([]), version)
        assert [request.version for request in kafka.requests] == [6, 7, 8]


async def test_topics_are_created_by_asking_for_them(kafka: EmbeddedKafka, client: WireClient) -> None:
    """As with Kafka the first answer does not know the topic yet, the second does."""
    request = MetadataRequest([MetadataRequestTopic(name="new")])
    answers = [(await client.ask(request, 9)).topics[0].error_code for _ in range(2)]
    assert answers == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert kafka.topics == {"t": 2, "new": 1}


async def test_topics_are_not_created_when_the_client_forbids_it(
    kafka: EmbeddedKafka, client: WireClient
) -> None:
    """A request with allow_auto_topic_creation=False creates no topic."""
    for _ in range(2):
        assert (await client.describe("new")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "new" not in kafka.topics


async def test_options_say_how_topics_are_made() -> None:
    """default_partitions and replication_factor apply to topics without numbers of their own."""
    async with EmbeddedKafka(2, default_partitions=4, replication_factor=1) as kafka:
        async with WireClient(kafka.bootstrap_servers) as client:
            await client.ask(MetadataRequest([MetadataRequestTopic(name="new")]), 9)
            topic = await client.describe("new")
        assert [list(p.replica_nodes) for p in topic.partitions] == [[1], [2], [1], [2]]


async def test_topics_can_be_changed_from_outside(kafka: EmbeddedKafka, client: WireClient) -> None:
    """Partitions are added; topics are deleted and created again with another id."""
    kafka.add_partitions("t", 5)
    assert len((await client.describe("t")).partitions) == 5
    before = kafka.topic_id("t")
    kafka.delete_topic("t")
    assert (await client.describe("t")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    kafka.create_topic("t", 1, max_message_bytes=100)
    assert kafka.topic_id("t") != before
    assert (await client.produce("t", plain(9))).error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_the_clocks_can_be_given() -> None:
    """Append times and expiry follow the clocks of the test."""
    now = [0.0]
    async with EmbeddedKafka(
        clock=lambda: now[0], wall_clock=lambda: 1_000_000 + int(now[0] * 1000), producer_expiration=60.0
    ) as kafka:
        kafka.create_topic("t", message_timestamp_type="LogAppendTime")
        async with WireClient(kafka.bootstrap_servers) as client:
            producer_id = await client.new_producer()
            await client.produce("t", sequenced(producer_id, 0))
            now[0] = 59.0
            assert (await client.produce("t", sequenced(producer_id, 5))).error_code != 0
            now[0] = 60.0
            answer = await client.produce("t", sequenced(producer_id, 5))
    assert (answer.error_code, answer.log_append_time_ms) == (0, 1_060_000)


async def test_the_seed_decides_the_ids() -> None:
    """Two clusters with one seed have the same topic ids; another seed gives other ids."""
    ids = []
    for seed in (1, 1, 2):
        kafka = EmbeddedKafka(seed=seed)
        kafka.create_topic("t")
        ids.append(kafka.topic_id("t"))
    assert ids[0] == ids[1] != ids[2]


async def test_a_port_can_be_chosen() -> None:
    """The first broker listens at the given port."""
    async with EmbeddedKafka() as kafka:
        port = kafka.brokers[0].port
    async with EmbeddedKafka(port=port) as kafka:
        assert kafka.bootstrap_servers == f"127.0.0.1:{port}"


async def test_a_port_that_is_taken_fails_and_leaves_nothing(kafka: EmbeddedKafka) -> None:
    """The operating system's error is raised; a second cluster that could not start can be stopped."""
    other = EmbeddedKafka(2, port=kafka.brokers[0].port)
    with pytest.raises(OSError, match="address already in use"):
        await other.start()
    await other.stop()


async def test_stopping_ends_every_connection_and_keeps_the_records() -> None:
    """The connection of a client that does not read ends too; a second stop does nothing."""
    kafka = EmbeddedKafka()
    await kafka.start()
    kafka.create_topic("t")
    async with WireClient(kafka.bootstrap_servers) as client:
        await client.produce("t", plain(3))
        flood = kafka.faults.rewrite(lambda _: bytes(20_000_000), api="Metadata")
        client.send(MetadataRequest([]), 9)
        await asyncio.wait_for(flood.reached(), 5)
        assert repr(kafka) == "<EmbeddedKafka running, 1 broker(s), 1 topic(s)>"
        await kafka.stop()
        await kafka.stop()
    assert kafka.brokers[0].connections == 0
    assert len(kafka.records("t")) == 3
    assert repr(kafka) == "<EmbeddedKafka stopped, 1 broker(s), 1 topic(s)>"


async def test_starting_twice_is_refused(kafka: EmbeddedKafka) -> None:
    """One object is one cluster."""
    with pytest.raises(RuntimeError, match="is already running"):
        await kafka.start()


@pytest.mark.parametrize(
    ("given", "prefix"),
    [
        ({"brokers": 0}, "brokers=0: must be a whole number from 1 to"),
        ({"brokers": "3"}, "brokers='3': "),
        ({"brokers": True}, "brokers=True: "),
        ({"port": 70_000}, "port=70000: must be a whole number from 0 to 65535"),
        ({"port": -1}, "port=-1: "),
        ({"port": "9092"}, "port='9092': "),
        ({"port": 65_534, "brokers": 3}, "port=65534: must be a whole number from 0 to 65533"),
        ({"default_partitions": 0}, "default_partitions=0: must be a whole number from 1 to 100000"),
        ({"default_partitions": "3"}, "default_partitions='3': "),
        ({"default_partitions": 100_001}, "default_partitions=100001: "),
    ],
)
def test_impossible_clusters_are_refused(given: dict[str, Any], prefix: str) -> None:
    """The constructor refuses an invalid number of brokers, port or number of partitions."""
    with pytest.raises(ValueError, match="must be a whole number") as refused:
        EmbeddedKafka(**given)
    assert str(refused.value).startswith(prefix)


async def test_a_request_that_is_too_long_ends_the_connection() -> None:
    """max_request_bytes is Kafka's socket.request.max.bytes."""
    async with EmbeddedKafka(max_request_bytes=1000) as kafka, WireClient(kafka.bootstrap_servers) as client:
        client.send_bytes((1001).to_bytes(4, "big"))
        assert await client.rest() == b""


async def test_many_requests_come_in_one_piece_and_in_many(kafka: EmbeddedKafka, client: WireClient) -> None:
    """However the bytes are split, each request is handled once and in order."""
    frame = client.frame(MetadataRequest([]), 9)
    client.send_bytes(frame * 3)
    for byte in frame:
        client.send_bytes(bytes([byte]))
        await asyncio.sleep(0)
    for _ in range(4):
        await client.receive_frame()
    assert len(kafka.requests) == 4


def test_codes_are_those_of_kafka() -> None:
    """An error is given by its Kafka name or by any number."""
    assert (code_of("NOT_LEADER_OR_FOLLOWER"), code_of(999)) == (6, 999)


def test_each_api_has_a_file_that_says_what_it_does() -> None:
    """Each API has one module, whose docstring begins with Kafka's name of it."""
    import importlib

    from aioproducer.testing.broker.handlers import HANDLERS

    folder = Path(__file__).parents[2] / "aioproducer" / "testing" / "broker" / "handlers"
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    docs = {
        name: importlib.import_module(f"aioproducer.testing.broker.handlers.{name}").__doc__ or ""
        for name in modules
    }
    assert sorted(doc.split(":")[0] for doc in docs.values()) == sorted(h.name for h in HANDLERS.values())


def test_an_unknown_isolation_is_refused() -> None:
    """A misspelt isolation level does not show records of aborted transactions."""
    kafka = EmbeddedKafka()
    kafka.create_topic("one")
    with pytest.raises(
        ValueError, match="isolation='committed': it must be one of read_committed, read_uncommitted"
    ):
        kafka.records("one", isolation=cast("Any", "committed"))


@pytest.mark.parametrize("seconds", ["5", -1.0, float("nan"), float("inf"), True], ids=repr)
def test_a_delay_that_cannot_be_is_refused(seconds: Any) -> None:
    """The call raises the error, not the broker when a request arrives."""
    kafka = EmbeddedKafka()
    for delay in (kafka.faults.delay, kafka.faults.delay_markers):
        with pytest.raises(ValueError, match="it must be a number from 0, or None for no limit"):
            delay(seconds)

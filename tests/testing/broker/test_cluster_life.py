"""Leaders that move, brokers that stop and start, topics that hide."""

from __future__ import annotations

import socket

import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.api_versions import ApiVersion, ApiVersionsRequest
from aioproducer._wire.messages.metadata import MetadataRequest
from aioproducer._wire.messages.produce import LeaderIdAndEpoch, NodeEndpoint
from aioproducer.testing import ClusterRefusal, EmbeddedKafka
from tests.contract.batches import plain, sequenced
from tests.contract.client import WireClient, produce_request


def _client(kafka: EmbeddedKafka, broker: int) -> WireClient:
    return WireClient(kafka.brokers[broker - 1].address)


async def test_leaders_are_spread(three: EmbeddedKafka) -> None:
    """Each broker leads one of three partitions, and each partition has a replica on all three."""
    assert [three.leader_of("t", index) for index in range(3)] == [1, 2, 3]
    async with _client(three, 2) as client:
        topic = await client.describe("t")
    assert [sorted(p.replica_nodes) for p in topic.partitions] == [[1, 2, 3]] * 3


@pytest.mark.parametrize("version", [9, 10, 13])
async def test_the_wrong_broker_says_who_leads(three: EmbeddedKafka, version: int) -> None:
    """NOT_LEADER_OR_FOLLOWER carries leader, epoch and address from version 10 on (KIP-951)."""
    three.faults.move_leader("t", 0, 3)
    topic_id = three.topic_id("t") if version >= 13 else bytes(16)
    async with _client(three, 1) as client:
        request = produce_request("" if version >= 13 else "t", plain(), topic_id=topic_id)
        answer = await client.ask(request, version)
    partition = answer.responses[0].partition_responses[0]
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    carried = version >= 10
    assert partition.current_leader == (LeaderIdAndEpoch(3, 1) if carried else LeaderIdAndEpoch())
    endpoint = NodeEndpoint(3, "127.0.0.1", three.brokers[2].port)
    assert list(answer.node_endpoints) == ([endpoint] if carried else [])


async def test_records_and_producers_move_with_the_leader(three: EmbeddedKafka) -> None:
    """All replicas are equal: the new leader recognizes the duplicates of the old one."""
    async with _client(three, 1) as old, _client(three, 2) as new:
        batch = sequenced(await old.new_producer(), 0, 3)
        await old.produce("t", batch)
        three.faults.move_leader("t", 0, 2)
        assert (await new.produce("t", batch)).base_offset == 0
        assert (await new.produce("t", plain())).base_offset == 3


async def test_a_partition_can_be_without_a_leader(kafka: EmbeddedKafka, client: WireClient) -> None:
    """Metadata answers LEADER_NOT_AVAILABLE, Produce NOT_LEADER_OR_FOLLOWER; the epoch rises each time."""
    kafka.faults.move_leader("t", 0, -1)
    described = (await client.describe("t")).partitions[0]
    assert (described.error_code, described.leader_id, described.leader_epoch) == (
        ErrorCode.LEADER_NOT_AVAILABLE,
        -1,
        1,
    )
    assert (await client.produce("t", plain())).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    kafka.faults.move_leader("t", 0, 1)
    assert (await client.produce("t", plain())).error_code == 0
    assert (await client.describe("t")).partitions[0].leader_epoch == 2


async def test_a_stopped_broker_hands_its_leadership_over(three: EmbeddedKafka) -> None:
    """The broker's connections end, its port closes, another replica leads, and the metadata no longer lists it."""
    async with _client(three, 1) as client, _client(three, 2) as other:
        await client.describe("t")
        await three.faults.stop_broker(1)
        assert await client.rest() == b""
        view = await other.ask(MetadataRequest(None), 13)
        assert [broker.node_id for broker in view.brokers] == [2, 3]
        first = next(p for p in view.topics[0].partitions if p.partition_index == 0)
        assert (first.leader_id, first.leader_epoch, sorted(first.isr_nodes)) == (2, 1, [2, 3])
        assert list(first.offline_replicas) == [1]
    with pytest.raises(ConnectionRefusedError):
        async with _client(three, 1):
            pass


@pytest.mark.parametrize("port", [None, 0])
async def test_a_broker_comes_back(three: EmbeddedKafka, port: int | None) -> None:
    """A broker restarts at its old port or at another; it follows, and leads again on request."""
    before = three.brokers[0].port
    await three.faults.stop_broker(1)
    await three.faults.start_broker(1, port=port)
    assert (three.brokers[0].port == before) is (port is None)
    three.faults.move_leader("t", 0, 1)
    async with _client(three, 1) as client:
        assert (await client.produce("t", plain())).error_code == 0
        described = (await client.describe("t")).partitions[0]
    assert (described.leader_epoch, sorted(described.isr_nodes)) == (2, [1, 2, 3])


@pytest.mark.parametrize("lives", [1, 2])
async def test_port_of_a_stopped_broker_stays_its_own(kafka: EmbeddedKafka, lives: int) -> None:
    """No other program gets the port of a stopped broker, which returns to it after any number of stops."""
    port = kafka.brokers[0].port
    for _ in range(lives):
        await kafka.faults.stop_broker(1)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        await kafka.faults.start_broker(1)
    assert kafka.brokers[0].port == port


async def test_a_lonely_broker_leads_again_when_it_is_back(kafka: EmbeddedKafka) -> None:
    """With one replica no broker takes over; the records are still there afterwards."""
    async with WireClient(kafka.bootstrap_servers) as client:
        await client.produce("t", plain(2))
    await kafka.faults.stop_broker(1)
    assert kafka.leader_of("t") == -1
    await kafka.faults.start_broker(1)
    async with WireClient(kafka.bootstrap_servers) as client:
        assert (await client.produce("t", plain())).base_offset == 2


async def test_too_few_replicas_refuse_acks_all_only(three: EmbeddedKafka) -> None:
    """min.insync.replicas applies to acks=all; writing continues when the replicas are back."""
    three.create_topic("safe", min_insync_replicas=2)
    leader = three.leader_of("safe")
    three.faults.shrink_isr("safe", 0, leader)
    async with _client(three, leader) as client:
        assert (await client.produce("safe", plain())).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await client.produce("safe", plain(), acks=1)).base_offset == 0
        three.faults.shrink_isr("safe", 0, 1, 2)
        assert (await client.produce("safe", plain())).base_offset == 1


async def test_a_topic_can_hide_from_metadata(three: EmbeddedKafka) -> None:
    """A topic is hidden at one broker or at all; it is not created anew, and accepts records as before."""
    async with _client(three, 1) as client, _client(three, 2) as other:
        three.faults.hide_topic("t", broker=1)
        assert (await client.describe("t")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await other.describe("t")).error_code == 0
        three.faults.hide_topic("t")
        assert (await other.ask(MetadataRequest(None), 13)).topics == []
        assert (await client.produce("t", plain())).error_code == 0
        three.faults.show_topic("t")
        three.faults.show_topic("t", broker=1)
        assert (await client.describe("t")).topic_id == three.topic_id("t")


async def test_acknowledged_records_can_be_lost(kafka: EmbeddedKafka, client: WireClient) -> None:
    """An unclean election truncates the log, and the lost offsets are given again."""
    for _ in range(3):
        await client.produce("t", plain())
    kafka.faults.truncate("t", 0, 1)
    assert (await client.produce("t", plain())).base_offset == 1
    assert (await client.describe("t")).partitions[0].leader_epoch == 1


async def test_old_records_can_go(kafka: EmbeddedKafka, client: WireClient) -> None:
    """Retention moves the start of the log, which answers carry."""
    for _ in range(2):
        await client.produce("t", plain(3))
    kafka.faults.delete_records("t", 0, 4)
    assert [record.offset for record in kafka.records("t")] == [4, 5]
    assert (await client.produce("t", plain())).log_start_offset == 4


async def test_producers_can_be_forgotten(kafka: EmbeddedKafka, client: WireClient) -> None:
    """After the broker forgets the producer a duplicate is appended again; faults.md places this beyond the promise."""
    batch = sequenced(await client.new_producer(), 0)
    await client.produce("t", batch)
    kafka.faults.forget_producers("t", 0)
    assert (await client.produce("t", batch)).base_offset == 1


async def test_an_older_broker_can_be_played(kafka: EmbeddedKafka, client: WireClient) -> None:
    """The broker announces and accepts only the given versions."""
    kafka.limit_version("Produce", 3, 8)
    assert (await client.produce("t", plain(), version=8)).error_code == 0
    client.send(produce_request("t", plain()), 9)
    assert await client.rest() == b""


async def test_a_broker_may_know_api_versions_of_old_only(kafka: EmbeddedKafka, client: WireClient) -> None:
    """A newer ApiVersions request is refused in version 0 with the range; an injected fault does the same."""
    request = ApiVersionsRequest("contract", "1")
    kafka.faults.error("UNSUPPORTED_VERSION", api="ApiVersions")
    answers = [await client.ask(request, 4)]
    kafka.limit_version("ApiVersions", 0, 2)
    answers.append(await client.ask(request, 4))
    assert [(answer.error_code, list(answer.api_keys)) for answer in answers] == [
        (ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(18, 0, 4)]),
        (ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(18, 0, 2)]),
    ]


def test_what_is_not_there_is_named() -> None:
    """Unknown brokers, topics and partitions are errors of the test that list the existing ones."""
    kafka = EmbeddedKafka(brokers=2)
    kafka.create_topic("t", 2)
    with pytest.raises(KeyError, match=r"no broker 5; the embedded Kafka has \[1, 2\]"):
        kafka.faults.move_leader("t", 0, 5)
    with pytest.raises(ClusterRefusal, match="no topic 'x'"):
        kafka.high_watermark("x")
    with pytest.raises(ClusterRefusal, match="partitions 0 to 1, not 2"):
        kafka.leader_of("t", 2)
    with pytest.raises(ClusterRefusal, match="already exists"):
        kafka.create_topic("t")

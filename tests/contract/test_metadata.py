"""The metadata of topics that exist, and the errors of those that do not."""

from __future__ import annotations

import pytest

from aioproducer._wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.contract.client import WireClient

NO_ID = bytes(16)
UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC, UNKNOWN_TOPIC_ID = 3, 17, 100


async def test_a_topic_has_an_id_and_a_leader_for_each_partition(client: WireClient, name: str) -> None:
    """Partitions are numbered from 0 and have a leader, an epoch and replicas; the topic has an id."""
    topic = await client.create_topic(name, 3)
    assert topic.topic_id != NO_ID
    assert [
        (
            p.error_code,
            p.partition_index,
            p.leader_id,
            p.leader_epoch,
            list(p.replica_nodes),
            list(p.isr_nodes),
        )
        for p in sorted(topic.partitions, key=lambda p: p.partition_index)
    ] == [(0, index, 1, 0, [1], [1]) for index in range(3)]


@pytest.mark.parametrize("version", range(14))
async def test_every_version_describes_a_topic(client: WireClient, name: str, version: int) -> None:
    """All versions tell the partitions; leader epochs from 7 on, topic ids from 10 on."""
    created = await client.create_topic(name, 2)
    request = MetadataRequest([MetadataRequestTopic(name=name)])
    topic = (await client.ask(request, version)).topics[0]
    assert (topic.error_code, topic.name) == (0, name)
    assert sorted((p.partition_index, p.leader_id) for p in topic.partitions) == [(0, 1), (1, 1)]
    assert {p.leader_epoch for p in topic.partitions} == {0 if version >= 7 else -1}
    assert topic.topic_id == (created.topic_id if version >= 10 else NO_ID)


@pytest.mark.parametrize("version", [4, 9, 11, 12, 13])
async def test_an_unknown_topic_is_told_as_unknown(client: WireClient, name: str, version: int) -> None:
    """A name that is not there comes back with UNKNOWN_TOPIC_OR_PARTITION and nothing else."""
    topic = await client.describe(name, version)
    assert (topic.error_code, topic.name, topic.topic_id) == (UNKNOWN_TOPIC_OR_PARTITION, name, NO_ID)
    assert not topic.partitions


async def test_a_topic_is_found_by_its_id(client: WireClient, name: str) -> None:
    """From version 12 on a topic can be asked for by id, and the answer has its name."""
    created = await client.create_topic(name)
    topic = (
        await client.ask(MetadataRequest([MetadataRequestTopic(created.topic_id, None)], False), 13)
    ).topics[0]
    assert (topic.error_code, topic.name) == (0, name)


async def test_an_unknown_id_is_told_as_unknown_id(client: WireClient) -> None:
    """An id that is not there comes back with UNKNOWN_TOPIC_ID and without a name."""
    topic = (await client.ask(MetadataRequest([MetadataRequestTopic(b"x" * 16, None)], False), 13)).topics[0]
    assert (topic.error_code, topic.name, topic.topic_id) == (UNKNOWN_TOPIC_ID, None, b"x" * 16)


@pytest.mark.parametrize("bad", ["", ".", "..", "a b", "ä", "x" * 250])
async def test_an_impossible_name_is_told_as_invalid(client: WireClient, bad: str) -> None:
    """A name that no topic can have gives INVALID_TOPIC_EXCEPTION."""
    assert (await client.describe(bad)).error_code == INVALID_TOPIC


async def test_null_asks_for_all_topics_and_an_empty_list_for_none(client: WireClient, name: str) -> None:
    """From version 1 on null means all topics, an empty list none."""
    await client.create_topic(name)
    everything = await client.ask(MetadataRequest(None, False), 13)
    nothing = await client.ask(MetadataRequest([], False), 13)
    assert name in {topic.name for topic in everything.topics}
    assert not nothing.topics


async def test_in_version_0_an_empty_list_asks_for_all_topics(client: WireClient, name: str) -> None:
    """Version 0 knows no null: its empty list means all topics."""
    await client.create_topic(name)
    assert name in {topic.name for topic in (await client.ask(MetadataRequest([]), 0)).topics}


async def test_the_brokers_are_those_to_talk_to(client: WireClient, address: str) -> None:
    """The broker list has the address that was connected to, and the cluster an id of 22 characters."""
    response = await client.ask(MetadataRequest([], False), 13)
    assert [f"{broker.host}:{broker.port}" for broker in response.brokers] == [address]
    assert [broker.node_id for broker in response.brokers] == [1]
    assert (response.controller_id, len(response.cluster_id), response.error_code) == (1, 22, 0)


@pytest.mark.parametrize("version", [8, 9, 12])
async def test_allowed_operations_are_told_on_request(client: WireClient, name: str, version: int) -> None:
    """Without an authorizer all operations are allowed; other answers do not have them."""
    await client.create_topic(name)
    topics = [MetadataRequestTopic(name=name)]
    asking = MetadataRequest(topics, include_topic_authorized_operations=True)
    told = (await client.ask(asking, version)).topics[0].topic_authorized_operations
    assert told == sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
    told = (await client.ask(MetadataRequest(topics), version)).topics[0].topic_authorized_operations
    assert told == -(1 << 31)

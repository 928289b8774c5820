"""Making, growing and deleting topics."""

from __future__ import annotations

import time
from typing import Any

import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from aioproducer._wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from aioproducer._wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aioproducer._wire.messages.describe_cluster import DescribeClusterRequest
from aioproducer._wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aioproducer._wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from tests.contract.client import WireClient, until

TOPIC, BROKER = 2, 4


async def _create(client: WireClient, *topics: CreatableTopic, version: int = 7, **fields: Any) -> Any:
    return (await client.ask(CreateTopicsRequest(list(topics), **fields), version)).topics[0]


def _configured(name: str, setting: str, value: str | None) -> CreatableTopic:
    return CreatableTopic(name, 1, 1, configs=[CreatableTopicConfig(setting, value)])


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version_creates(client: WireClient, name: str, version: int) -> None:
    """From version 5 on the answer has the created settings, from 7 on the id."""
    made = await _create(client, CreatableTopic(name, 2, 1), version=version)
    assert (made.name, made.error_code, made.error_message) == (name, 0, None)
    assert (made.num_partitions, made.replication_factor) == ((2, 1) if version >= 5 else (-1, -1))
    assert (made.topic_id != bytes(16)) is (version >= 7)


async def test_minus_one_leaves_the_choice_to_the_broker(client: WireClient, name: str) -> None:
    """Without partitions and replication factor the broker's defaults are taken (KIP-464)."""
    made = await _create(client, CreatableTopic(name, -1, -1))
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 1, 1)


async def test_replicas_can_be_assigned_by_hand(client: WireClient, name: str) -> None:
    """One list of brokers for each partition takes the place of the numbers."""
    by_hand = [CreatableReplicaAssignment(0, [1]), CreatableReplicaAssignment(1, [1])]
    made = await _create(client, CreatableTopic(name, -1, -1, by_hand))
    assert (made.error_code, made.num_partitions) == (0, 2)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (CreatableTopic("a b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic("refused", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (CreatableTopic("refused", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (CreatableTopic("refused", 1, 5), ErrorCode.INVALID_REPLICATION_FACTOR),
        (CreatableTopic("refused", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (CreatableTopic("refused", 1, 1, [CreatableReplicaAssignment(0, [1])]), ErrorCode.INVALID_REQUEST),
        (
            CreatableTopic("refused", -1, -1, [CreatableReplicaAssignment(0, [7])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            CreatableTopic("refused", -1, -1, [CreatableReplicaAssignment(1, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            CreatableTopic("refused", -1, -1, [CreatableReplicaAssignment(0, [1, 1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (_configured("refused", "no.such.setting", "1"), ErrorCode.INVALID_CONFIG),
        (_configured("refused", "max.message.bytes", "many"), ErrorCode.INVALID_CONFIG),
        (_configured("refused", "max.message.bytes", None), ErrorCode.INVALID_CONFIG),
        (_configured("refused", "message.timestamp.type", "Sundial"), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_topics_that_cannot_be(client: WireClient, topic: CreatableTopic, code: ErrorCode) -> None:
    """An invalid new topic has its error code, and nothing is created."""
    refused = await _create(client, topic)
    assert (refused.name, refused.error_code, refused.topic_id) == (topic.name, code, bytes(16))
    assert refused.error_message
    assert (await client.describe(topic.name)).error_code != 0


async def test_a_name_that_is_taken(client: WireClient, name: str) -> None:
    """A second topic of the same name is TOPIC_ALREADY_EXISTS."""
    await client.create_topic(name)
    refused = await _create(client, CreatableTopic(name, 1, 1))
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        f"Topic '{name}' already exists.",
    )


async def test_names_that_differ_in_dots_and_underscores_collide(client: WireClient, name: str) -> None:
    """a.b and a_b would have the same metrics."""
    await client.create_topic(f"{name}.a_b")
    refused = await _create(client, CreatableTopic(f"{name}_a.b", 1, 1))
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic '{name}_a.b' collides with existing topic: {name}.a_b",
    )


async def test_a_name_given_twice(client: WireClient, name: str) -> None:
    """Both are refused with one answer."""
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1), CreatableTopic(name, 2, 1)])
    answers = (await client.ask(request, 7)).topics
    assert [(one.error_code, one.error_message) for one in answers] == [
        (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    ]


async def test_validate_only_makes_nothing(client: WireClient, name: str) -> None:
    """A dry run describes the topic and creates none."""
    made = await _create(client, CreatableTopic(name, 2, 1), validate_only=True)
    assert (made.error_code, made.num_partitions) == (0, 2)
    assert (await client.describe(name)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _grow(client: WireClient, topic: str, count: int, *, version: int = 3, dry: bool = False) -> int:
    request = CreatePartitionsRequest([CreatePartitionsTopic(topic, count, None)], 10_000, dry)
    code: int = (await client.ask(request, version)).results[0].error_code
    return code


@pytest.mark.parametrize("version", range(4))
async def test_partitions_can_be_added(client: WireClient, name: str, version: int) -> None:
    """The count is the new total; the new partitions get leaders."""
    await client.create_topic(name)
    assert await _grow(client, name, 3, version=version) == 0
    grown = await until(lambda: client.describe(name), lambda topic: len(topic.partitions) == 3)
    assert grown.error_code == 0


async def test_partitions_are_never_taken_away(client: WireClient, name: str) -> None:
    """The same count, a lower one and an unknown topic are refused; a dry run changes nothing."""
    await client.create_topic(name, 2)
    assert await _grow(client, name, 2) == ErrorCode.INVALID_PARTITIONS
    assert await _grow(client, name, 1) == ErrorCode.INVALID_PARTITIONS
    assert await _grow(client, f"{name}-none", 3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await _grow(client, name, 5, dry=True) == 0
    assert len((await client.describe(name)).partitions) == 2


@pytest.mark.parametrize("version", range(1, 7))
async def test_every_version_deletes(client: WireClient, name: str, version: int) -> None:
    """Up to version 5 by name; a second time the topic is unknown."""
    await client.create_topic(name)
    request = (
        DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=10_000)
        if version >= 6
        else DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
    )
    answers = [(await client.ask(request, version)).responses[0] for _ in range(2)]
    assert [(one.name, one.error_code) for one in answers] == [
        (name, 0),
        (name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


async def test_a_topic_can_be_deleted_by_id(client: WireClient, name: str) -> None:
    """From version 6 on; the answer has its name. An unknown id is UNKNOWN_TOPIC_ID."""
    topic = await client.create_topic(name)
    states = [DeleteTopicState(None, topic.topic_id), DeleteTopicState(None, b"x" * 16)]
    answers = (await client.ask(DeleteTopicsRequest(states, timeout_ms=10_000), 6)).responses
    assert {(one.name, one.topic_id, one.error_code) for one in answers} == {
        (name, topic.topic_id, 0),
        (None, b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
    }


async def test_a_topic_named_twice_is_not_deleted(client: WireClient, name: str) -> None:
    """It is refused with one answer."""
    await client.create_topic(name)
    request = DeleteTopicsRequest([DeleteTopicState(name), DeleteTopicState(name)], timeout_ms=10_000)
    answers = (await client.ask(request, 6)).responses
    assert [(one.error_code, one.error_message) for one in answers] == [
        (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    ]
    assert (await client.describe(name)).error_code == 0


async def test_a_recreated_topic_has_another_id(client: WireClient, name: str) -> None:
    """Same name, another topic."""
    first = await client.create_topic(name)
    await client.delete_topic(name)
    assert (await client.create_topic(name)).topic_id != first.topic_id


@pytest.mark.parametrize("version", range(1, 5))
async def test_settings_can_be_read(client: WireClient, name: str, version: int) -> None:
    """Those that were set and those that are Kafka's defaults, by name."""
    await client.create_topic(name, max_message_bytes=12345)
    keys = ["max.message.bytes", "message.timestamp.type", "retention.ms"]
    request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, name, keys)])
    [result] = (await client.ask(request, version)).results
    assert {one.name: (one.value, one.config_source) for one in result.configs} == {
        "max.message.bytes": ("12345", 1),
        "message.timestamp.type": ("CreateTime", 5),
        "retention.ms": ("604800000", 5),
    }


async def test_settings_of_a_topic_that_is_not_there(client: WireClient, name: str) -> None:
    """They are UNKNOWN_TOPIC_OR_PARTITION."""
    request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, name, None)])
    assert (await client.ask(request, 4)).results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_broker_describes_itself_only(client: WireClient) -> None:
    """The id of a node in the question for its settings proves which node answers."""
    keys = ["node.id", "auto.create.topics.enable"]
    request = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "1", keys)])
    [result] = (await client.ask(request, 4)).results
    assert {one.name: one.value for one in result.configs} == {
        "node.id": "1",
        "auto.create.topics.enable": "false",
    }
    request = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "7", keys)])
    [result] = (await client.ask(request, 4)).results
    assert (result.error_code, list(result.configs)) == (ErrorCode.INVALID_REQUEST, [])
    assert result.error_message == "Unexpected broker id, expected 1 or empty string, but received 7"


@pytest.mark.parametrize("version", range(3))
async def test_the_controller_tells_its_time(client: WireClient, version: int) -> None:
    """From version 1 on, the time of the last fetch of the leader of the quorum is its present time."""
    request = DescribeQuorumRequest([TopicData("__cluster_metadata", [PartitionData(0)])])
    before = time.time()
    response = await client.ask(request, version)
    [partition] = response.topics[0].partitions
    assert (response.error_code, partition.error_code, partition.leader_id) == (0, 0, 1)
    [leader] = [one for one in partition.current_voters if one.replica_id == 1]
    if version >= 1:
        assert abs(leader.last_fetch_timestamp / 1000 - before) < 5


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_can_be_described(client: WireClient, address: str, version: int) -> None:
    """DescribeCluster lists the brokers with their addresses."""
    response = await client.ask(DescribeClusterRequest(), version)
    assert [(one.broker_id, f"{one.host}:{one.port}") for one in response.brokers] == [(1, address)]
    assert (response.error_code, len(response.cluster_id)) == (0, 22)

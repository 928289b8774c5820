"""The committed offsets of groups; no member has to join for them."""

from __future__ import annotations

import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.find_coordinator import FindCoordinatorRequest
from aioproducer._wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aioproducer._wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.contract.client import WireClient, until


async def _ready(client: WireClient, group: str) -> None:
    """Wait for the group's coordinator: a real Kafka makes the topic for it when it is first asked."""
    request = FindCoordinatorRequest(coordinator_keys=[group])
    await until(lambda: client.ask(request, 6), lambda answer: answer.coordinators[0].error_code == 0)
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
    await until(lambda: client.ask(fetch, 9), lambda answer: answer.groups[0].error_code == 0)


async def _commit(
    client: WireClient,
    group: str,
    topic: str,
    offset: int,
    *,
    topic_id: bytes = bytes(16),
    version: int = 9,
    partition: int = 0,
) -> int:
    asked = OffsetCommitRequestTopic(
        topic, topic_id, [OffsetCommitRequestPartition(partition, offset, -1, "note")]
    )
    answer = await client.ask(OffsetCommitRequest(group, topics=[asked]), version)
    code: int = answer.topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize("version", range(7))
async def test_every_version_finds_the_coordinator(client: WireClient, address: str, version: int) -> None:
    """One key up to version 3, many afterwards; here it is the only broker."""
    await _ready(client, "g")
    many = version >= 4
    request = FindCoordinatorRequest(coordinator_keys=["g", "h"]) if many else FindCoordinatorRequest("g")
    answer = await client.ask(request, version)
    found = list(answer.coordinators) if many else [answer]
    assert [(one.error_code, one.node_id, f"{one.host}:{one.port}") for one in found] == [
        (0, 1, address)
    ] * len(found)
    assert [one.key for one in answer.coordinators] == (["g", "h"] if many else [])


@pytest.mark.parametrize("version", range(2, 11))
async def test_every_version_commits(client: WireClient, name: str, version: int) -> None:
    """Committed offsets are read back, with their metadata; topics have ids from version 10 on."""
    topic = await client.create_topic(name)
    await _ready(client, name)
    by_id = version >= 10
    topic_id = topic.topic_id if by_id else bytes(16)
    assert await _commit(client, name, "" if by_id else name, 7, topic_id=topic_id, version=version) == 0
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, topics=None)])
    [group] = (await client.ask(request, 9)).groups
    assert [
        (one.name, [(p.partition_index, p.committed_offset, p.metadata) for p in one.partitions])
        for one in group.topics
    ] == [(name, [(0, 7, "note")])]


@pytest.mark.parametrize("version", range(1, 11))
async def test_every_version_reads_back(client: WireClient, name: str, version: int) -> None:
    """-1 where nothing was committed; groups in the plural from version 8 on, topic ids from 10 on."""
    topic = await client.create_topic(name, 2)
    await _ready(client, name)
    await _commit(client, name, name, 7)
    if version >= 8:
        by_id = version >= 10
        asked = OffsetFetchRequestTopics(
            "" if by_id else name, topic.topic_id if by_id else bytes(16), [0, 1]
        )
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, topics=[asked])])
        answer = (await client.ask(request, version)).groups[0]
    else:
        request = OffsetFetchRequest(name, [OffsetFetchRequestTopic(name, [0, 1])])
        answer = await client.ask(request, version)
    assert answer.error_code == 0
    [one] = answer.topics
    assert sorted(
        (p.partition_index, p.committed_offset, p.metadata, p.error_code) for p in one.partitions
    ) == [
        (0, 7, "note", 0),
        (1, -1, "", 0),
    ]


async def test_offsets_of_what_is_not_there_are_refused(client: WireClient, name: str) -> None:
    """Unknown topics and partitions cannot be committed to."""
    await client.create_topic(name)
    await _ready(client, name)
    assert await _commit(client, name, f"{name}-none", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await _commit(client, name, name, 1, partition=5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await _commit(client, name, "", 1, topic_id=b"x" * 16, version=10) == ErrorCode.UNKNOWN_TOPIC_ID

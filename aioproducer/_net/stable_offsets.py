"""The offsets that a group has committed, once no transaction is open that may change them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from aioproducer._net.coordinator import Coordinator, Key, fatal_error
from aioproducer._state.coordinator_verdicts import Answer, Request
from aioproducer._wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from aioproducer.consumed import group_of, partitions_of
from aioproducer.errors import KafkaError, TransactionTimeoutError
from aioproducer.records import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from aioproducer._net.connection import Connection
    from aioproducer._net.session import Session

OFFSET_FETCH = 9
STABLE_FROM = 7
GROUPS_FROM = 8
BEFORE_TOPIC_IDS = 9
NOTHING_COMMITTED = -1


async def fetch_committed(
    session: Session, group: str, partitions: Iterable[Any], patience: float
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Ask the group's coordinator, again as long as a transaction holds an offset back."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    for place in partitions_of(partitions):
        by_topic[place.topic].append(place.partition)
    group = group_of(group).group_id
    coordinator = Coordinator(session, Key.GROUP, group)
    found: dict[TopicPartition, OffsetAndMetadata] = {}

    async def attempt(connection: Connection) -> int:
        found.clear()
        version = connection.versions.choose(OFFSET_FETCH, BEFORE_TOPIC_IDS, at_least=STABLE_FROM)
        answer = await connection.request(
            _question(group, by_topic, version),
            OffsetFetchResponse,
            timeout=coordinator.timeout,
            version=version,
        )
        told = answer.groups[0] if version >= GROUPS_FROM and answer.groups else answer
        codes = [told.error_code]
        for topic in told.topics:
            for partition in topic.partitions:
                codes.append(partition.error_code)
                if partition.committed_offset != NOTHING_COMMITTED:
                    found[TopicPartition(topic.name, partition.partition_index)] = OffsetAndMetadata(
                        partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
                    )
        return next((code for code in codes if code), 0)

    try:
        async with asyncio.timeout(patience):
            said = await coordinator.settle(Request.FETCH_OFFSETS, attempt)
    except TimeoutError as error:
        if isinstance(error, KafkaError):
            raise
        raise TransactionTimeoutError(
            "the group's offsets are not known in time; a transaction may be open that changes them",
            waited=patience,
            cause=coordinator.trouble,
        ) from coordinator.trouble
    finally:
        coordinator.forget()
    if said.answer is not Answer.DONE:
        raise fatal_error(said)
    return found


def _question(group: str, by_topic: dict[str, list[int]], version: int) -> OffsetFetchRequest:
    if version >= GROUPS_FROM:
        topics = [OffsetFetchRequestTopics(name, partition_indexes=found) for name, found in by_topic.items()]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)], require_stable=True)
    return OffsetFetchRequest(
        group, [OffsetFetchRequestTopic(name, found) for name, found in by_topic.items()], require_stable=True
    )

"""Metadata from the past: brokers repeat earlier answers about the topics."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import attrs

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aioproducer.testing.broker.cluster.topics import Partition, Topic
from tests.simulation.world import World

Picture = Mapping[str, MetadataResponseTopic]


@attrs.define(eq=False)
class Past:
    """Snapshots of the cluster, oldest first. The first is from before there were topics."""

    world: World
    pictures: list[Picture] = attrs.Factory(lambda: [{}])

    def remember(self) -> None:
        """Take a snapshot before the topics change: a broker that lags behind answers with it."""
        topics = self.world.kafka._cluster.topics
        self.pictures.append({name: _picture_of(topic) for name, topic in topics.items()})

    def answer_once(self, broker: int | None) -> str:
        """The next answer comes from the past."""
        age, change = self._lag()
        self.world.kafka.faults.alter(change, api="Metadata", broker=broker, times=1)
        return f"the next metadata of broker {broker} is picture -{age}"

    async def answer_for(self, broker: int | None, seconds: float) -> None:
        """All answers of a broker, or of all, come from the past for a while."""
        _, change = self._lag()
        with self.world.kafka.faults.alter(change, api="Metadata", broker=broker, times=None):
            await asyncio.sleep(seconds)

    def _lag(self) -> tuple[int, Any]:
        age = min(self.world.rng.choice((1, 1, 1, 2, 3)), len(self.pictures))
        picture = self.pictures[-age]

        def change(answer: MetadataResponse) -> MetadataResponse:
            asked = [topic.name or "" for topic in answer.topics]
            return answer._replace(topics=[picture.get(name, _missing(name)) for name in asked])

        return age, change


def _picture_of(topic: Topic) -> MetadataResponseTopic:
    partitions = [_partition(partition) for partition in topic.partitions]
    return MetadataResponseTopic(name=topic.name, topic_id=topic.id, partitions=partitions)


def _partition(partition: Partition) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
    )


def _missing(name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)

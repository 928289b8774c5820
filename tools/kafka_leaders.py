"""Moves the leaders of a real Kafka's partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.alter_partition_reassignments.v0.response import AlterPartitionReassignmentsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from tools.kafka_jars import KafkaUnavailableError
from tools.kafka_requests import ask

_LIMIT: Final = 20.0


def prefer(address: str, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
    """Order the replicas of these partitions: the first of each becomes its preferred leader. No data moves.

    Confluent's admin client has no such request; any broker forwards it to the controller.
    """
    partitions = tuple(
        ReassignablePartition(partition_index=i32(index), replicas=tuple(BrokerId(node) for node in nodes))
        for index, nodes in replicas.items()
    )
    asked = ReassignableTopic(name=TopicName(topic), partitions=partitions)
    request = AlterPartitionReassignmentsRequest(topics=(asked,))
    answer = ask(address, request, AlterPartitionReassignmentsResponse)
    refused = [p for one in answer.responses for p in one.partitions if p.error_code.value]
    if answer.error_code.value or refused:
        raise KafkaUnavailableError(f"replicas of {topic} were not reordered: {answer}")


def elect_preferred(admin: AdminClient, topic: str, partitions: Sequence[int]) -> int:
    """Make the first replica of each partition its leader; returns the number of moved leaderships."""
    asked = [TopicPartition(topic, index) for index in partitions]
    answers = admin.elect_leaders(ElectionType.PREFERRED, asked).result(_LIMIT)
    return sum(error is None for error in answers.values())

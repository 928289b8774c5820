"""Moves the leaders of a real Kafka's partitions."""

from __future__ import annotations

import io
import socket
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
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from tools.kafka_jars import KafkaUnavailableError

_LIMIT: Final = 20.0
_API: Final = 45


def prefer(address: str, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
    """Order the replicas of these partitions: the first of each becomes its preferred leader. No data moves.

    Confluent's admin client has no such request; any broker forwards it to the controller.
    """
    partitions = tuple(
        ReassignablePartition(partition_index=i32(index), replicas=tuple(BrokerId(node) for node in nodes))
        for index, nodes in replicas.items()
    )
    asked = ReassignableTopic(name=TopicName(topic), partitions=partitions)
    answer = _ask(address, AlterPartitionReassignmentsRequest(topics=(asked,)))
    refused = [p for one in answer.responses for p in one.partitions if p.error_code.value]
    if answer.error_code.value or refused:
        raise KafkaUnavailableError(f"replicas of {topic} were not reordered: {answer}")


def elect_preferred(admin: AdminClient, topic: str, partitions: Sequence[int]) -> int:
    """Make the first replica of each partition its leader; returns the number of moved leaderships."""
    asked = [TopicPartition(topic, index) for index in partitions]
    answers = admin.elect_leaders(ElectionType.PREFERRED, asked).result(_LIMIT)
    return sum(error is None for error in answers.values())


def _ask(address: str, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    host, port = address.rsplit(":", 1)
    frame = io.BytesIO()
    header = RequestHeader(
        request_api_key=i16(_API), request_api_version=i16(0), correlation_id=i32(1), client_id="tools"
    )
    entity_writer(RequestHeader)(frame, header)
    entity_writer(AlterPartitionReassignmentsRequest)(frame, request)
    with socket.create_connection((host, int(port)), timeout=_LIMIT) as connection:
        connection.sendall(len(frame.getvalue()).to_bytes(4, "big") + frame.getvalue())
        with connection.makefile("rb") as answers:
            answer = answers.read(int.from_bytes(answers.read(4), "big"))
    _, read = entity_reader(ResponseHeader)(answer, 0)
    response, _ = entity_reader(AlterPartitionReassignmentsResponse)(answer, read)
    return response

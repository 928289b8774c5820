"""Metadata: brokers, topics, leaders.

v0 takes an empty list for "all topics", later versions null. v4 lets the client forbid auto-creation. v5 adds offline
replicas, v7 leader epochs, v10 topic ids in the answer, v12 topic ids in the request, v13 an error for the whole
answer. The answer to a request that creates a topic does not have the topic yet: it is UNKNOWN_TOPIC_OR_PARTITION
(`AutoTopicCreationManager`), and the next answer has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.cluster import Cluster
from aioproducer.testing.broker.cluster.topics import NO_LEADER, NO_TOPIC_ID, Partition, Topic, invalid_name
from aioproducer.testing.broker.rules import Subject

_NOT_TOLD: Final = -(1 << 31)


def subjects(request: MetadataRequest, cluster: Cluster) -> tuple[Subject, ...] | None:
    """The topics of the request, by name or id."""
    if request.topics is None:
        return None
    return tuple((name, None) for name in (_name(cluster, topic) for topic in request.topics) if name)


def answer(call: Call) -> Message:
    """The cluster from this broker's point of view."""
    cluster = call.cluster
    error = call.plan.error()
    whole_answer = error is not None and call.version >= 13
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node.id, node.host, node.port) for node in cluster.live_nodes()],
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=[] if whole_answer else list(_topics(call)),
        error_code=error.code if error is not None and whole_answer else ErrorCode.NONE,
    )


def _topics(call: Call) -> Iterable[MetadataResponseTopic]:
    asked = call.request.topics
    if asked is None or (call.version == 0 and not asked):
        visible = (
            t for t in call.cluster.topics.values() if not call.cluster.is_hidden(t.name, call.node.id)
        )
        described = [_describe(call, topic) for topic in visible]
        # Kafka leaves the topics that a user may not describe out of the list of all.
        return [one for one in described if one.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    return [_one_topic(call, topic) for topic in asked]


def _one_topic(call: Call, asked: MetadataRequestTopic) -> MetadataResponseTopic:
    by_id = asked.name is None or (call.version >= 12 and asked.topic_id != NO_TOPIC_ID)
    topic = call.cluster.find(asked.name or "", asked.topic_id, by_id=by_id)
    if topic is not None and not call.cluster.is_hidden(topic.name, call.node.id):
        return _describe(call, topic)
    if by_id:
        return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
    return _unknown(call, asked.name or "", creates=topic is None)


def _unknown(call: Call, name: str, *, creates: bool) -> MetadataResponseTopic:
    error = call.plan.error(name)
    if error is not None:
        return MetadataResponseTopic(error.code, name)
    if invalid_name(name) is not None:
        return MetadataResponseTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
    if creates and call.cluster.options.auto_create_topics and call.request.allow_auto_topic_creation:
        call.cluster.create_topic(name)
    return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)


def _describe(call: Call, topic: Topic) -> MetadataResponseTopic:
    error = call.plan.error(topic.name)
    if error is not None:
        return MetadataResponseTopic(error.code, topic.name, topic.id)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        partitions=[_describe_partition(call, topic.name, partition) for partition in topic.partitions],
        topic_authorized_operations=(
            call.topic_operations(topic.name)
            if call.request.include_topic_authorized_operations
            else _NOT_TOLD
        ),
    )


def _describe_partition(call: Call, topic: str, partition: Partition) -> MetadataResponsePartition:
    code: int = ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE
    error = call.plan.error(topic, partition.index)
    if error is not None:
        code = error.code
    return MetadataResponsePartition(
        error_code=code,
        partition_index=partition.index,
        leader_id=NO_LEADER if code == ErrorCode.LEADER_NOT_AVAILABLE else partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=[replica for replica in partition.replicas if not call.cluster.node(replica).up],
    )


def _name(cluster: Cluster, asked: MetadataRequestTopic) -> str | None:
    if asked.name:
        return asked.name
    topic = cluster.topics_by_id.get(asked.topic_id)
    return topic.name if topic is not None else None


HANDLER = Handler(3, 0, 13, answer, subjects)

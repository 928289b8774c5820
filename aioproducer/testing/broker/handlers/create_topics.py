"""CreateTopics: new topics, each created or refused separately.

v2 is the first supported one; v4 lets the broker choose partitions and replication (-1); v5 is flexible and returns the
created settings; v7 returns the topic id. Any broker accepts it: in a KRaft cluster they forward it to the controller.
"""

from __future__ import annotations

from collections import Counter

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.cluster import Cluster, ClusterRefusal
from aioproducer.testing.broker.cluster.topics import DEFAULT_CONFIGS, Topic
from aioproducer.testing.broker.rules import Subject

_DYNAMIC_TOPIC_CONFIG, _DEFAULT_CONFIG = 1, 5


def subjects(request: CreateTopicsRequest, _cluster: Cluster) -> tuple[Subject, ...]:
    """The new topics."""
    return tuple((topic.name, None) for topic in request.topics)


def answer(call: Call) -> Message:
    """The result for each topic."""
    named = Counter(topic.name for topic in call.request.topics)
    unique = {topic.name: topic for topic in call.request.topics}
    return CreateTopicsResponse(topics=[_one(call, topic, named[name]) for name, topic in unique.items()])


def _one(call: Call, asked: CreatableTopic, times: int) -> CreatableTopicResult:
    injected = call.plan.error(asked.name)
    if injected is not None:
        return _refusal(asked.name, injected.code, injected.message)
    if times > 1:
        return _refusal(asked.name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    try:
        topic = _create(call, asked)
    except ClusterRefusal as refused:
        return _refusal(asked.name, refused.error, refused.message)
    return _made(topic)


def _create(call: Call, asked: CreatableTopic) -> Topic:
    assignments = [tuple(one.broker_ids) for one in sorted(asked.assignments)]
    if assignments and (asked.num_partitions, asked.replication_factor) != (-1, -1):
        raise ClusterRefusal(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but a number of partitions or replicas was given too.",
        )
    if [one.partition_index for one in sorted(asked.assignments)] != list(range(len(assignments))):
        raise ClusterRefusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    for config in asked.configs:
        if config.value is None:
            raise ClusterRefusal(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {config.name}"
            )
    return call.cluster.create_topic(
        asked.name,
        None if asked.num_partitions == -1 else asked.num_partitions,
        None if asked.replication_factor == -1 else asked.replication_factor,
        {config.name: config.value or "" for config in asked.configs},
        assignments=assignments,
        dry_run=call.request.validate_only,
    )


def _made(topic: Topic) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(
                name,
                topic.config(name),
                config_source=_DYNAMIC_TOPIC_CONFIG if name in topic.configs else _DEFAULT_CONFIG,
            )
            for name in DEFAULT_CONFIGS
        ],
    )


def _refusal(name: str, error: int, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name, error_code=error, error_message=message)


HANDLER = Handler(19, 2, 7, answer, subjects)

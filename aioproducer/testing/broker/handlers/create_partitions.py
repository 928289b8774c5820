"""CreatePartitions: more partitions for a topic. v2 is flexible; there are no other relevant differences."""

from __future__ import annotations

from aioproducer._wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.cluster import Cluster, ClusterRefusal
from aioproducer.testing.broker.rules import Subject


def subjects(request: CreatePartitionsRequest, _cluster: Cluster) -> tuple[Subject, ...]:
    """The topics of the request."""
    return tuple((topic.name, None) for topic in request.topics)


def answer(call: Call) -> Message:
    """The result for each topic."""
    return CreatePartitionsResponse(results=[_one(call, topic) for topic in call.request.topics])


def _one(call: Call, asked: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
    injected = call.plan.error(asked.name)
    if injected is not None:
        return CreatePartitionsTopicResult(asked.name, injected.code, injected.message)
    try:
        call.cluster.add_partitions(asked.name, asked.count, dry_run=call.request.validate_only)
    except ClusterRefusal as refused:
        return CreatePartitionsTopicResult(asked.name, refused.error, refused.message)
    return CreatePartitionsTopicResult(asked.name)


HANDLER = Handler(37, 0, 3, answer, subjects)

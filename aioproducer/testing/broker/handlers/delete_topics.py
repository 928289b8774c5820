"""DeleteTopics: topics by name, or from v6 on by name or id.

v1 is the first supported one; v4 is flexible; v5 adds error texts; v6 topic ids.
"""

from __future__ import annotations

from collections import Counter

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.cluster import Cluster
from aioproducer.testing.broker.rules import Subject


def subjects(request: DeleteTopicsRequest, cluster: Cluster) -> tuple[Subject, ...]:
    """The topics of the request."""
    by_id = (cluster.topics_by_id.get(state.topic_id) for state in request.topics if state.name is None)
    names = [*request.topic_names, *(state.name for state in request.topics if state.name is not None)]
    return tuple((name, None) for name in (*names, *(topic.name for topic in by_id if topic is not None)))


def answer(call: Call) -> Message:
    """The result for each topic."""
    asked = call.request.topics or [DeleteTopicState(name) for name in call.request.topic_names]
    times = Counter(asked)
    return DeleteTopicsResponse(
        responses=[_one(call, state) if count == 1 else _twice(state) for state, count in times.items()]
    )


def _twice(state: DeleteTopicState) -> DeletableTopicResult:
    text = "Duplicate topic name." if state.name is not None else "Duplicate topic id."
    return DeletableTopicResult(state.name, state.topic_id, ErrorCode.INVALID_REQUEST, text)


def _one(call: Call, state: DeleteTopicState) -> DeletableTopicResult:
    topic = call.cluster.find(state.name or "", state.topic_id, by_id=state.name is None)
    if topic is None and state.name is None:
        return DeletableTopicResult(
            None, state.topic_id, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
        )
    name = topic.name if topic is not None else state.name or ""
    injected = call.plan.error(name)
    if injected is not None:
        return DeletableTopicResult(name, state.topic_id, injected.code, injected.message)
    if topic is None:
        text = "This server does not host this topic-partition."
        return DeletableTopicResult(name, state.topic_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    call.cluster.delete_topic(name)
    return DeletableTopicResult(name, topic.id)


HANDLER = Handler(20, 1, 6, answer, subjects)

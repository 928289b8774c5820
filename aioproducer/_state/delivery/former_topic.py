"""Batches that may be in the former topic: it was deleted, and created again under another topic id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.cluster.facts import NO_TOPIC_ID
from aioproducer.errors import DeliveryError
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.partition_queue import TopicQueues


def was_sent_to_the_former_topic(batch: QueuedBatch) -> bool:
    """Whether the newest attempt named a topic id that was replaced since; requests by name reach the present topic."""
    topic: TopicQueues = batch.queue.topic  # type: ignore[assignment]
    return batch.sent_to != topic.topic_id and NO_TOPIC_ID not in (batch.sent_to, topic.topic_id)


def may_be_in_the_former_topic(batch: QueuedBatch) -> bool:
    """Whether an attempt without a clear answer named the former topic: the batch is not sent to the present one."""
    return batch.dirty and was_sent_to_the_former_topic(batch)


def lost_with_its_topic(batch: QueuedBatch, now: float) -> DeliveryError:
    """The error of such a batch."""
    return DeliveryError(
        "the topic was deleted and created again after an attempt without a clear answer; the record may be in the former "
        "topic, and was not written to the present one",
        outcome=Outcome.UNKNOWN,
        cause=batch.last_error,
        **batch.facts(now),
    )

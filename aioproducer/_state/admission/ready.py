"""A record that is ready to be appended, and its size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from aioproducer._core import BATCH_OVERHEAD, record_size
from aioproducer.errors import BufferFullError, RecordTooLargeError

if TYPE_CHECKING:
    from aioproducer._state.batching.accumulator import Accumulator

    PlainHeaders = tuple[tuple[str, bytes | None], ...] | None


@attrs.frozen
class ReadyRecord:
    """A record in the form that is appended."""

    key: bytes | None
    value: bytes | None
    headers: PlainHeaders
    timestamp: int | None
    partition: int | None
    # The token of the context that its call was made in, of a producer with tracing.
    context: object = None


def check_size(accumulator: Accumulator, topic: str, record: ReadyRecord) -> None:
    """Raise for a record that can never fit, also before the topic is known; the core checks the same later."""
    if size_alone(record) > largest(accumulator, topic)[0]:
        raise too_large(accumulator, topic, record)


def size_alone(record: ReadyRecord) -> int:
    """The bytes of a record in a batch of its own, which the limits apply to."""
    return BATCH_OVERHEAD + record_size(record.key, record.value, record.headers)


def largest(accumulator: Accumulator, topic: str) -> tuple[int, str]:
    """The largest size of a record of the topic in a batch of its own, and the setting that limits it."""
    limits = [
        (accumulator.limits.max_request_size, "max_request_size"),
        (accumulator.budget.capacity, "buffer_memory"),
    ]
    if topic in accumulator.cluster.topic_budgets:
        limits.append((accumulator.cluster.topic_budgets[topic].capacity, "topic_buffer_limits"))
    return min(limits)


def too_large(accumulator: Accumulator, topic: str, record: ReadyRecord) -> RecordTooLargeError:
    """The error for a record that can never fit."""
    size = size_alone(record)
    limit, setting = largest(accumulator, topic)
    return RecordTooLargeError(
        topic=topic, partition=record.partition, size=size, limit=limit, setting=setting
    )


def without_memory(topic: str, cause: BaseException) -> BufferFullError:
    """The error for a waiting record for which the process had no memory."""
    return BufferFullError("the process has no memory for the record", topic=topic, cause=cause)

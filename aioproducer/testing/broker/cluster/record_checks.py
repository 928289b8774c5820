"""The checks of a batch by its topic's settings: timestamps, and for some topics each single record."""

from __future__ import annotations

import cramjam

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.cluster.topics import Topic
from aioproducer.testing.broker.logs.batches import BatchHeader, RefusedRecords
from aioproducer.testing.broker.logs.records import (
    MalformedRecordsError,
    StoredRecord,
    parse_batch,
)

_NO_KEY = "Compacted topic cannot accept message without key in topic partition {}-{}"
_OUT_OF_RANGE = (
    "Timestamp {} of message with offset {} is out of range. The timestamp should be within [{}, {}]"
)
_SHOWN = 3


def check_timestamps(topic: Topic, index: int, header: BatchHeader, batch: bytes, wall: int) -> None:
    """Refuse records too far in the past or the future, unless the broker sets their timestamps.

    The header shows whether any record can be too far in the future, and not whether one is too old: the records are
    parsed for the former, and where the topic has a limit for the past.
    """
    oldest, newest = wall - topic.timestamp_before_max_ms, wall + topic.timestamp_after_max_ms
    if topic.log_append_time or (header.max_timestamp <= newest and oldest <= 0):
        return
    errors = tuple(
        (i, _OUT_OF_RANGE.format(record.timestamp, i, oldest, newest))
        for i, record in enumerate(_parsed(topic, index, batch))
        if not oldest <= record.timestamp <= newest
    )
    if errors:
        told = "One or more records have been rejected due to invalid timestamp"
        raise RefusedRecords(ErrorCode.INVALID_TIMESTAMP, told, told=told, record_errors=errors, by_log=True)


def check_records(topic: Topic, index: int, batch: bytes, *, always: bool) -> None:
    """Check each record if the topic requires it (compaction needs keys), or `always`."""
    compacted = "compact" in topic.config("cleanup.policy")
    if not (compacted or always):
        return
    parsed = _parsed(topic, index, batch)
    text = _NO_KEY.format(topic.name, index)
    errors = tuple((i, text) for i, record in enumerate(parsed) if compacted and record.key is None)
    if errors:
        told = _many(errors)
        raise RefusedRecords(ErrorCode.INVALID_RECORD, told, told=told, record_errors=errors, by_log=True)


def _many(errors: tuple[tuple[int, str], ...]) -> str:
    shown = ", ".join(f"RecordError(batchIndex={i}, message='{text}')" for i, text in errors[:_SHOWN])
    return (
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )


def _parsed(topic: Topic, index: int, batch: bytes) -> list[StoredRecord]:
    try:
        return parse_batch(topic.name, index, batch)
    except (MalformedRecordsError, cramjam.DecompressionError) as error:
        raise RefusedRecords(ErrorCode.INVALID_RECORD, str(error), by_log=True) from error

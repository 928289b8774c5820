"""What a topic's settings demand of a batch: its time, and for some topics each single record."""

from __future__ import annotations

from .batches import BatchHeader, RefusedRecords
from .codes import Code
from .records import MalformedRecordsError, StoredRecord, parse_batch
from .topics import Topic

_NO_KEY = "Compacted topic cannot accept message without key in topic partition {}-{}."


def check_timestamps(topic: Topic, header: BatchHeader, wall: int) -> None:
    """Refuse records from too far in the past or the future, as far as the header tells; unless the broker dates them."""
    if topic.log_append_time:
        return
    if header.max_timestamp - wall > topic.timestamp_after_max_ms:
        _refuse_time(header.max_timestamp, wall, topic)
    if wall - header.base_timestamp > topic.timestamp_before_max_ms:
        _refuse_time(header.base_timestamp, wall, topic)


def check_records(topic: Topic, index: int, records: bytes, *, always: bool) -> None:
    """Look at each record where the topic needs it (compaction needs keys) or `always`."""
    compacted = "compact" in topic.config("cleanup.policy")
    if not (compacted or always):
        return
    parsed = _parsed(topic, index, records)
    keyless = tuple(i for i, record in enumerate(parsed) if record.key is None) if compacted else ()
    if keyless:
        text = _NO_KEY.format(topic.name, index)
        raise RefusedRecords(
            Code.INVALID_RECORD,
            "One or more records have been rejected due to "
            f"{len(keyless)} record errors in total, and only showing the first three errors at most: ",
            tuple((i, text) for i in keyless),
        )


def _parsed(topic: Topic, index: int, records: bytes) -> list[StoredRecord]:
    try:
        return parse_batch(topic.name, index, records)
    except (MalformedRecordsError, ValueError) as error:
        raise RefusedRecords(Code.INVALID_RECORD, str(error)) from error


def _refuse_time(timestamp: int, wall: int, topic: Topic) -> None:
    raise RefusedRecords(
        Code.INVALID_TIMESTAMP,
        f"Timestamp {timestamp} of message is out of range: at {wall} topic {topic.name} takes what is at most "
        f"{topic.timestamp_before_max_ms} ms older or {topic.timestamp_after_max_ms} ms newer",
    )

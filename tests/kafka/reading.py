"""Reading a topic back with a client that shares no code with this library, checksums checked."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import attrs
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tests.judge.history import Found, found

_LIMIT: Final = 60.0
_TIME_TO_SHOW: Final = 3.0
_TIMESTAMP_TYPES: Final = {TIMESTAMP_CREATE_TIME: "CreateTime", TIMESTAMP_LOG_APPEND_TIME: "LogAppendTime"}


@attrs.frozen
class ReadRecord:
    """One record as the broker stores it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    timestamp_type: str
    headers: tuple[tuple[str, bytes | None], ...]


def read_all(bootstrap_servers: str, topic: str, *, isolation: str = "read_uncommitted") -> list[ReadRecord]:
    """All records of the topic, by partition and in each by offset."""
    records = [_read_record(message) for message in messages(bootstrap_servers, topic, isolation)]
    return sorted(records, key=lambda record: (record.partition, record.offset))


def read_found(bootstrap_servers: str, topic: str) -> list[Found]:
    """The fields of each record of a large topic that the judge needs, without timestamps."""
    return [_found(message) for message in messages(bootstrap_servers, topic, limit=120.0)]


def messages(
    bootstrap_servers: str, topic: str, isolation: str = "read_uncommitted", limit: float = _LIMIT
) -> Iterator[Message]:
    """The topic from its beginning to its end, in each partition in the order of its offsets.

    A commit is answered before its records are visible: the reader waits for committed records as long as that takes;
    records that are hidden for longer belong to an open transaction.
    """
    ends = _ends(bootstrap_servers, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"reading-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "isolation.level": isolation,
            "queued.max.messages.kbytes": 16_384,
            "fetch.wait.max.ms": 20,
        }
    )
    try:
        yield from _to_the_end(consumer, topic, ends, limit)
    finally:
        consumer.close()


def by_partition(records: list[ReadRecord]) -> dict[int, list[ReadRecord]]:
    """The same records, grouped."""
    grouped: dict[int, list[ReadRecord]] = defaultdict(list)
    for record in records:
        grouped[record.partition].append(record)
    return dict(grouped)


def _ends(bootstrap_servers: str, topic: str) -> dict[int, int]:
    own = {"group.id": f"ends-{uuid.uuid4()}", "isolation.level": "read_uncommitted"}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, **own})
    try:
        partitions = consumer.list_topics(topic, timeout=30.0).topics[topic].partitions
        wheres = [TopicPartition(topic, partition) for partition in partitions]
        return {where.partition: consumer.get_watermark_offsets(where, timeout=30.0)[1] for where in wheres}
    finally:
        consumer.close()


def _to_the_end(consumer: Consumer, topic: str, ends: dict[int, int], limit: float) -> Iterator[Message]:
    unfinished, came_to_an_end = set(ends), set()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in unfinished])
    deadline, shown_by = time.monotonic() + limit, time.monotonic() + _TIME_TO_SHOW
    while unfinished:
        for message in consumer.consume(5_000, timeout=0.1):
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                came_to_an_end.add(_known(message.partition()))
                if _known(message.offset()) >= ends[_known(message.partition())]:
                    unfinished.discard(_known(message.partition()))
            else:
                raise KafkaException(error)
        if unfinished <= came_to_an_end and time.monotonic() > shown_by:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: partitions {sorted(unfinished)} were not read within {limit:g} s")


def _found(message: Message) -> Found:
    return found(
        str(message.topic()),
        _known(message.partition()),
        _known(message.offset()),
        _bytes(message.key()),
        _bytes(message.value()),
        _headers(message),
        None,
    )


def _read_record(message: Message) -> ReadRecord:
    timestamp_type, timestamp = message.timestamp()
    return ReadRecord(
        partition=_known(message.partition()),
        offset=_known(message.offset()),
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        timestamp=timestamp,
        timestamp_type=_TIMESTAMP_TYPES[timestamp_type],
        headers=_headers(message),
    )


def _headers(message: Message) -> tuple[tuple[str, bytes | None], ...]:
    headers = message.headers() or []
    assert isinstance(headers, list), "a consumer gives headers in their order"
    return tuple((name, _bytes(value)) for name, value in headers)


def _known(number: int | None) -> int:
    assert number is not None, "a message that was read has a place"
    return number


def _bytes(data: bytes | str | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data

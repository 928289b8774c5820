"""Reading a topic back with a client that shares no code with ours, checksums checked."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
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

_LIMIT: Final = 60.0
_TIMESTAMP_TYPES: Final = {TIMESTAMP_CREATE_TIME: "CreateTime", TIMESTAMP_LOG_APPEND_TIME: "LogAppendTime"}


@attrs.frozen
class ReadRecord:
    """One record as the broker keeps it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    timestamp_type: str
    headers: tuple[tuple[str, bytes | None], ...]


def read_all(bootstrap_servers: str, topic: str, *, isolation: str = "read_uncommitted") -> list[ReadRecord]:
    """Every record of the topic, by partition and in each by offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"reading-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 20,
        }
    )
    try:
        return _read_to_the_end(consumer, topic)
    finally:
        consumer.close()


def by_partition(records: list[ReadRecord]) -> dict[int, list[ReadRecord]]:
    """The same records, grouped."""
    grouped: dict[int, list[ReadRecord]] = defaultdict(list)
    for record in records:
        grouped[record.partition].append(record)
    return dict(grouped)


def _read_to_the_end(consumer: Consumer, topic: str) -> list[ReadRecord]:
    unfinished = set(consumer.list_topics(topic, timeout=10.0).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in unfinished])
    records: list[ReadRecord] = []
    deadline = time.monotonic() + _LIMIT
    while unfinished:
        for message in consumer.consume(10_000, timeout=0.1):
            _take(message, records, unfinished)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: partitions {sorted(unfinished)} were not read within {_LIMIT:g} s")
    return sorted(records, key=lambda record: (record.partition, record.offset))


def _take(message: Message, records: list[ReadRecord], unfinished: set[int]) -> None:
    error = message.error()
    if error is None:
        records.append(_read_record(message))
    elif error.code() == KafkaError._PARTITION_EOF:
        unfinished.discard(_known(message.partition()))
    else:
        raise KafkaException(error)


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

"""Reading a large topic back with a foreign client, checksums checked, keeping of each record what the judge needs."""

from __future__ import annotations

import time
import uuid
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.judge.history import Found, found

_LIMIT: Final = 120.0
_BATCH: Final = 5000


def read_found(bootstrap_servers: str, topic: str) -> list[Found]:
    """Every record of the topic, in each partition in the order of its offsets; timestamps are not looked at."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"reading-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "queued.max.messages.kbytes": 16_384,
            "fetch.wait.max.ms": 20,
        }
    )
    try:
        return _read_to_the_end(consumer, topic)
    finally:
        consumer.close()


def _read_to_the_end(consumer: Consumer, topic: str) -> list[Found]:
    unfinished = set(consumer.list_topics(topic, timeout=30.0).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in unfinished])
    log: list[Found] = []
    deadline = time.monotonic() + _LIMIT
    while unfinished:
        for message in consumer.consume(_BATCH, timeout=0.1):
            if message.error() is None:
                log.append(_found(topic, message))
            else:
                unfinished.discard(_finished(message))
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: partitions {sorted(unfinished)} were not read within {_LIMIT:g} s")
    return log


def _finished(message: Message) -> int:
    error = message.error()
    assert error is not None
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return _known(message.partition())


def _found(topic: str, message: Message) -> Found:
    key, value, headers = message.key(), message.value(), message.headers() or ()
    assert not isinstance(key, str)
    assert not isinstance(value, str)
    assert isinstance(headers, list | tuple)
    return found(topic, _known(message.partition()), _known(message.offset()), key, value, headers, None)  # type: ignore[arg-type]


def _known(number: int | None) -> int:
    assert number is not None, "a message that was read has a place"
    return number

"""The offsets that an audit reads, in pieces of about the same size, one for each task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs
from confluent_kafka import Consumer, KafkaException, TopicPartition

from aioproducer import AuthorizationError, BrokerError, BrokerUnavailableError

__all__ = ["ReaderSettings", "Split", "consumer_of", "partitions_of_topics", "splits_of"]

SECONDS_TO_ANSWER: Final = 30.0
NOT_ALLOWED: Final = 29


@attrs.frozen
class Split:
    """Offsets from `begin` up to, not including, `end`."""

    topic: str
    partition: int
    begin: int
    end: int


class ReaderSettings(dict[str, Any]):
    """Settings of a consumer. The repr has their names alone: frames of errors keep them, and a value may be a password."""

    def __repr__(self) -> str:
        return f"<settings {', '.join(self)}>"


def consumer_of(settings: Mapping[str, Any]) -> Consumer:
    """A consumer without a group, which verifies checksums and reads the assigned offsets."""
    own = {
        "group.id": "aioproducer-audit",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "check.crcs": True,
        "fetch.wait.max.ms": 20,
        # A task reads one partition, and by default pauses for a second with 100,000 records in store.
        "fetch.message.max.bytes": 8_388_608,
        "fetch.queue.backoff.ms": 2,
        "queued.max.messages.kbytes": 65_536,
    }
    return Consumer({**own, **settings})


def splits_of(settings: Mapping[str, Any], topics: Iterable[str], size: int) -> list[Split]:
    """The present records of the topics, in pieces of at most so many offsets; uncommitted records are waited for later."""
    # A commit is answered before it is visible in every partition: the present end of committed records is too low.
    consumer = consumer_of(ReaderSettings({**settings, "isolation.level": "read_uncommitted"}))
    try:
        return [split for topic in topics for split in _of_topic(consumer, topic, size)]
    finally:
        consumer.close()


def partitions_of_topics(
    settings: Mapping[str, Any], topics: Iterable[str], timeout: float = SECONDS_TO_ANSWER
) -> dict[str, int]:
    """The partition count of each topic; KafkaError where brokers do not answer, or the topic cannot be read."""
    consumer = consumer_of(settings)
    try:
        return {topic: len(_partitions(consumer, topic, timeout)) for topic in topics}
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topic: str, timeout: float = SECONDS_TO_ANSWER) -> list[int]:
    try:
        metadata = consumer.list_topics(topic, timeout=timeout).topics[topic]
    except KafkaException as error:
        raise BrokerUnavailableError(
            f"no broker answered within {timeout:g} s: {error.args[0].str()}"
        ) from error
    if metadata.error is not None:
        raise _refused(topic, metadata.error)
    return sorted(metadata.partitions)


def _refused(topic: str, error: Any) -> BrokerError | AuthorizationError:
    if error.code() == NOT_ALLOWED:
        return AuthorizationError(
            "the principal may not read the topic: grant it READ and DESCRIBE", topic=topic
        )
    return BrokerError("the topic cannot be read", code=error.code(), name=error.name(), topic=topic)


def _of_topic(consumer: Consumer, topic: str, size: int) -> list[Split]:
    found = []
    for partition in _partitions(consumer, topic):
        where = TopicPartition(topic, partition)
        first, last = consumer.get_watermark_offsets(where, timeout=SECONDS_TO_ANSWER)
        found += [Split(topic, partition, at, min(at + size, last)) for at in range(first, last, size)]
    return found

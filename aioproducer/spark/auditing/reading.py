"""Reads splits in tasks of Spark, by a client that shares no code with the producer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from aioproducer.spark.auditing.splits import Split, consumer_of

__all__ = ["read"]

AT_ONCE: Final = 10_000
WAIT: Final = 0.05
# A broker that returns nothing for so long will not return the rest.
SILENCE: Final = 60.0


def read(
    settings: Mapping[str, Any], splits: Sequence[Split], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The records of the splits with these numbers, one split after the other."""
    wanted = [number for batch in numbers for number in batch.column(0).to_pylist()]
    if not wanted:
        return
    consumer = consumer_of(settings)
    try:
        for number in wanted:
            yield from _read_one(consumer, splits[number], number)
    finally:
        consumer.close()


def _read_one(consumer: Consumer, split: Split, number: int) -> Iterator[pa.RecordBatch]:
    consumer.assign([TopicPartition(split.topic, split.partition, split.begin)])
    at, heard = split.begin, time.monotonic()
    while True:
        # The call returns when it has as many records as requested, or after its timeout.
        messages = consumer.consume(min(AT_ONCE, split.end - at), timeout=WAIT)
        rows, is_over = _within(messages, split)
        if rows:
            heard = time.monotonic()
            yield _records(split, number, rows)
        if is_over or (at := _position(consumer, split)) >= split.end:
            return
        if time.monotonic() - heard > SILENCE:
            raise TimeoutError(
                f"{split} was not read to its end: no record arrived for {SILENCE:g} s. Its broker is unreachable, or an open "
                "transaction holds back the records behind it"
            )


def _within(messages: list[Any], split: Split) -> tuple[list[Any], bool]:
    """The records that belong to the split, and whether it has ended."""
    told = [message for message in messages if message.error() is not None]
    for message in told:
        if message.error().code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  # its name in that library
            raise KafkaException(message.error())
    rows = [message for message in messages if message.error() is None] if told else messages
    if rows and rows[-1].offset() >= split.end:
        return [message for message in rows if message.offset() < split.end], True
    # The end of the committed records may come before the end of the split, and move.
    return rows, any(message.offset() >= split.end for message in told)


def _position(consumer: Consumer, split: Split) -> int:
    # Control records have offsets too, and are not returned.
    (where,) = consumer.position([TopicPartition(split.topic, split.partition)])
    return int(where.offset)


def _records(split: Split, number: int, messages: list[Any]) -> pa.RecordBatch:
    count = len(messages)
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(split.topic, count),
            pa.repeat(pa.scalar(split.partition, pa.int32()), count),
            pa.repeat(pa.scalar(number, pa.int32()), count),
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array([message.timestamp()[1] for message in messages], pa.int64()),
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
        ],
        names=["topic", "partition", "split", "offset", "timestamp", "key", "value"],
    )

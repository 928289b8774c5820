"""A topic as a source of batches and streams, by confluent-kafka: `spark.readStream.format("topic")`.

Spark's own source, `format("kafka")`, has the same options and takes its place, with its jar on the cluster
(`--packages org.apache.spark:spark-sql-kafka-0-10_2.13:…`). This one needs no jar.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

SCHEMA: Final = "key string, value string"
AT_ONCE: Final = 10_000
ANSWER_SECONDS: Final = 30.0
SILENCE_SECONDS: Final = 60.0

Offsets = dict[str, int]
"""The offset of each partition, whose number is a string: that is how Spark writes it into the checkpoint."""


@dataclass(frozen=True)
class Stretch(InputPartition):
    """Offsets of one partition from `begin` up to, not including, `end`: the work of a task."""

    partition: int
    begin: int
    end: int


class TopicSource(DataSource):
    """Options: `kafka.bootstrap.servers`, `subscribe`, `startingOffsets`, `endingOffsets` (of a batch), `maxOffsetsPerTrigger`.

    Offsets are JSON, as for Spark's source: `{"orders": {"0": 23, "1": 42}}`.
    """

    @classmethod
    def name(cls) -> str:
        return "topic"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return Batch(dict(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return Stream(dict(self.options))


class Topic:
    """The common part of the batch and of the stream."""

    def __init__(self, options: dict[str, str]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        self._topic = given["subscribe"]
        self._settings = {"bootstrap.servers": given["kafka.bootstrap.servers"]}
        self._first = _offsets(given.get("startingoffsets"), self._topic)
        self._last = _offsets(given.get("endingoffsets"), self._topic)
        self._most = int(given.get("maxoffsetspertrigger", 0))

    def ends(self, which: int) -> Offsets:
        """The first (0) or the last (1) offset of each partition."""
        consumer = consumer_of(self._settings)
        try:
            found = consumer.list_topics(self._topic, timeout=ANSWER_SECONDS).topics[self._topic].partitions
            return {
                str(number): consumer.get_watermark_offsets(
                    TopicPartition(self._topic, number), timeout=ANSWER_SECONDS
                )[which]
                for number in sorted(found)
            }
        finally:
            consumer.close()

    def begin(self) -> Offsets:
        """The offsets that the first batch begins with."""
        return self._first if self._first is not None else self.ends(0)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a task."""
        # An empty source has one task without work.
        if not isinstance(partition, Stretch):
            return
        consumer = consumer_of(self._settings)
        try:
            yield from _read(consumer, self._topic, partition)
        finally:
            consumer.close()


class Batch(Topic, DataSourceReader):
    """All records up to `endingOffsets`."""

    def partitions(self) -> list[InputPartition]:
        return stretches(self.begin(), self._last if self._last is not None else self.ends(1))


class Stream(Topic, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The records of each epoch; a repeated epoch reads the same ones, in the same tasks."""

    _target: Offsets | None = None

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        return self.begin()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadMaxRows(self._most) if self._most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self.ends(1)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802 - Spark's name
        end = self._target if self._target is not None else self.ends(1)
        return limited(start, end, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        return stretches(start, end)


def limited(start: Offsets, end: Offsets, most: int | None) -> Offsets:
    """Offsets with about `most` records behind them: the same part of each partition, so that none runs ahead in time."""
    behind = {name: max(end[name] - start.get(name, 0), 0) for name in end}
    total = sum(behind.values())
    if most is None or total <= most:
        return {name: start.get(name, 0) + count for name, count in behind.items()}
    # Rounded up: each partition that has records gives one.
    return {name: start.get(name, 0) - (-count * most // total) for name, count in behind.items()}


def stretches(start: Offsets, end: Offsets) -> list[InputPartition]:
    """A task for each partition that has records."""
    found = [Stretch(int(name), start.get(name, 0), end[name]) for name in sorted(end, key=int)]
    return [one for one in found if one.begin < one.end]


def consumer_of(settings: dict[str, str]) -> Consumer:
    """A consumer of committed records that commits no offsets: they are in the checkpoint."""
    own = {
        "group.id": "pipeline",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 20,
    }
    return Consumer({**own, **settings})


def _read(consumer: Consumer, topic: str, stretch: Stretch) -> Iterator[pa.RecordBatch]:
    consumer.assign([TopicPartition(topic, stretch.partition, stretch.begin)])
    at, heard = stretch.begin, time.monotonic()
    while at < stretch.end:
        messages: list[Any] = consumer.consume(min(AT_ONCE, stretch.end - at), timeout=0.05)
        rows = [message for message in messages if _is_record(message) and message.offset() < stretch.end]
        if rows:
            heard = time.monotonic()
            yield pa.RecordBatch.from_pylist(
                [{"key": _text(row.key()), "value": _text(row.value())} for row in rows],
                pa.schema([("key", pa.string()), ("value", pa.string())]),
            )
        if time.monotonic() - heard > SILENCE_SECONDS:
            raise TimeoutError(f"{topic}-{stretch.partition} could not be read from offset {at} on")
        # Marks of transactions have offsets too, and are not returned.
        (where,) = consumer.position([TopicPartition(topic, stretch.partition)])
        at = max(at, int(where.offset))


def _offsets(text: str | None, topic: str) -> Offsets | None:
    if text is None:
        return None
    found: Offsets = json.loads(text)[topic]
    return found


def _is_record(message: Any) -> bool:
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name in that library
        raise KafkaException(error)
    return error is None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")

"""The compared sinks: this library's, which is only watched, and confluent-kafka and aiokafka in writers of the same kind.

Each has one producer for the life of a worker, as this library's sink has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import cache
from itertools import cycle
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from aioproducer.spark.source import KafkaSink
from benchmarks.measure import BATCH_SIZE, LINGER_MS
from benchmarks.spark.contest import PARTITIONS, TUNED, Watch

SINKS: Final[list[type[DataSource]]] = []
# librdkafka's and aiokafka's queues are polled or awaited after so many rows.
AT_ONCE: Final = 10_000


def sink(cls: type[DataSource]) -> type[DataSource]:
    """Register the sink with the session of a benchmark."""
    SINKS.append(cls)
    return cls


def _counted(batches: Iterator[Any], watch: Watch) -> Iterator[Any]:
    for batch in batches:
        watch.rows += len(batch)
        yield batch


class _Watched:
    """A writer whose tasks store their times."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        with Watch() as watch:
            message: WriterCommitMessage = self._writer.write(_counted(iterator, watch))
        return message

    def commit(self, *args: Any) -> None:
        self._writer.commit(*args)

    def abort(self, *args: Any) -> None:
        self._writer.abort(*args)


class WatchedBatch(_Watched, DataSourceArrowWriter):
    """The writer of a batch."""


class WatchedStream(_Watched, DataSourceStreamArrowWriter):
    """The writer of a stream."""


@sink
class Ours(KafkaSink):
    """`watched-aioproducer`."""

    @classmethod
    def name(cls) -> str:
        return "watched-aioproducer"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return WatchedBatch(super().writer(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802  # Spark's
        return WatchedStream(super().streamWriter(schema, overwrite))


class OtherWriter(DataSourceArrowWriter):
    """The writer of another client; `send` gets server, topic and rows, and returns after all acknowledgements."""

    def __init__(self, servers: str, topic: str, codec: str) -> None:
        self.servers = servers
        self.topic = topic
        self.codec = codec

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        with Watch() as watch:
            self.send(_counted(iterator, watch))
        return WriterCommitMessage()

    def send(self, batches: Iterator[Any]) -> None:
        """Send these rows."""
        raise NotImplementedError

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing is left to do."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: the failure of a benchmark is visible."""


class _Other(DataSource):
    kind: type[OtherWriter]

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        codec = self.options.get("kafka.compression.type", "none")
        return self.kind(self.options["kafka.bootstrap.servers"], self.options["topic"], codec)


@cache
def _confluent(servers: str, codec: str) -> Producer:
    own = {
        "partitioner": "murmur2_random",
        "enable.idempotence": True,
        "queue.buffering.max.messages": 1_000_000,
        "compression.type": codec,
    }
    return Producer({"bootstrap.servers": servers, **TUNED, **own})


class ConfluentWriter(OtherWriter):
    """One call for each row, with a callback for each that counts the written rows."""

    def send(self, batches: Iterator[Any]) -> None:
        producer, topic = _confluent(self.servers, self.codec), self.topic
        written = 0
        sent = 0

        def told(error: Any, _: Any) -> None:
            nonlocal written
            written += error is None

        for batch in batches:
            keys = batch.column("key").to_pylist() if "key" in batch.schema.names else [None] * len(batch)
            for key, value in zip(keys, batch.column("value").to_pylist(), strict=True):
                while True:
                    try:
                        producer.produce(topic, value, key, on_delivery=told)
                        break
                    except BufferError:
                        producer.poll(0.01)
                sent += 1
                if sent % AT_ONCE == 0:
                    producer.poll(0)
        producer.flush()
        if written != sent:
            raise RuntimeError(f"{sent - written} of {sent} rows were not written")


class Dropped:
    """A writer that reads its rows: the cost of any sink in Python."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, *args: Any) -> None:
        """Nothing was written."""

    def abort(self, *args: Any) -> None:
        """Nothing was written."""


@sink
class Dropping(DataSource):
    """`dropping`."""

    @classmethod
    def name(cls) -> str:
        return "dropping"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return WatchedBatch(Dropped())

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802  # Spark's
        return WatchedStream(Dropped())


@sink
class Confluent(_Other):
    """`confluent`."""

    kind = ConfluentWriter

    @classmethod
    def name(cls) -> str:
        return "confluent"


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


@cache
def _aiokafka(servers: str) -> AIOKafkaProducer:
    async def started() -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            acks="all",
            enable_idempotence=True,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_SIZE,
        )
        await producer.start()
        return producer

    return _loop().run_until_complete(started())


class AiokafkaWriter(OtherWriter):
    """Whole batches by its batch API, to one partition after the other: that API does not choose partitions by key."""

    def send(self, batches: Iterator[Any]) -> None:
        _loop().run_until_complete(self._send(_aiokafka(self.servers), batches))

    async def _send(self, producer: AIOKafkaProducer, batches: Iterator[Any]) -> None:
        partitions = cycle(range(PARTITIONS))
        waiting: list[asyncio.Future[Any]] = []
        builder = producer.create_batch()
        for batch in batches:
            keys = batch.column("key").to_pylist() if "key" in batch.schema.names else [None] * len(batch)
            for key, value in zip(keys, batch.column("value").to_pylist(), strict=True):
                if builder.append(key=key, value=value, timestamp=None) is None:
                    waiting.append(await producer.send_batch(builder, self.topic, partition=next(partitions)))
                    builder = producer.create_batch()
                    builder.append(key=key, value=value, timestamp=None)
        waiting.append(await producer.send_batch(builder, self.topic, partition=next(partitions)))
        for written in waiting:
            await written


@sink
class Aiokafka(_Other):
    """`aiokafka`."""

    kind = AiokafkaWriter

    @classmethod
    def name(cls) -> str:
        return "aiokafka"
